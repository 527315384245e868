#!/bin/sh
# Run a statically linked Linux executable on an emulated x86 processor with instructions that this one lacks:
#
#   native/tests/emulate.sh [-c CPU] [-k KERNEL] EXECUTABLE [ARGUMENT...]
#
# Prints what the executable prints and exits with its status; 125 says that the emulation itself failed.
#   -c CPU      a model that `bochs --help cpu` lists. sapphire_rapids has AVX-512 with VNNI and VBMI, and AVX-VNNI;
#               arrow_lake has AVX-VNNI without AVX-512; corei7_skylake_x has AVX-512 without either.
#   -k KERNEL   a Linux kernel (vmlinuz); without it, Debian's kernel for virtual machines is downloaded and kept.
# BOCHS names another Bochs, EMULATE_SECONDS a limit other than 1800.
#
# Needs a Bochs newer than 3.0 (which stops when sapphire_rapids switches to ACPI), configured with at least
#   --with-nogui --enable-cpu-level=6 --enable-x86-64 --enable-pci --enable-avx --enable-evex --enable-amx
#   --enable-all-optimizations --disable-debugger --disable-debugger-gui
# and Debian's packages busybox-static, cpio, isolinux, syslinux-common and xorriso.
set -eu

fail() { echo "emulate.sh: $*" >&2; exit 125; }

cpu=sapphire_rapids kernel=
while getopts c:k: option; do
  case $option in
    c) cpu=$OPTARG ;;
    k) kernel=$OPTARG ;;
    *) exit 125 ;;
  esac
done
shift $((OPTIND - 1))
[ $# -gt 0 ] || fail "usage: emulate.sh [-c CPU] [-k KERNEL] EXECUTABLE [ARGUMENT...]"
[ -f "$1" ] || fail "$1 is not a file"
bochs=${BOCHS:-bochs}
for tool in "$bochs" busybox cpio xorriso; do
  command -v "$tool" >/dev/null || fail "$tool is not installed"
done

work=$(mktemp -d)
emulator=
trap '[ -z "$emulator" ] || kill "$emulator" 2>"$work/kill.log" || true; rm -rf "$work"' EXIT
trap 'exit 125' HUP INT TERM
mkdir -p "$work/root/bin" "$work/root/proc" "$work/root/run" "$work/disc"

# The kernel is unpacked, never installed.
if [ -z "$kernel" ]; then
  kernel=${XDG_CACHE_HOME:-$HOME/.cache}/prunus/vmlinuz
  if [ ! -f "$kernel" ]; then
    package=$(apt-cache depends linux-image-cloud-amd64 | sed -n 's/.*Depends: \(linux-image-.*\)/\1/p')
    (cd "$work" && apt-get -qq download "$package" && dpkg-deb -x linux-image-*.deb unpacked) >&2 ||
      fail "no kernel: name one with -k"
    mkdir -p "${kernel%/*}"
    mv "$work"/unpacked/boot/vmlinuz-* "$kernel"
  fi
fi

# The machine's only program: start the executable between two marks, then switch off.
quote() { printf '%s\n' "$1" | sed "s/'/'\\\\''/g; 1s/^/'/; \$s/\$/'/"; }
program=$1
shift
command=$(quote "/run/${program##*/}")
for argument; do
  command="$command $(quote "$argument")"
done
cp "$(command -v busybox)" "$work/root/bin/busybox"
cp "$program" "$work/root/run/"
cat >"$work/root/init" <<INIT
#!/bin/busybox sh
/bin/busybox mount -t proc proc /proc
echo "=== begin"
$command 2>&1
echo "=== status \$?"
/bin/busybox sleep 0.1  # until the serial port has sent everything
/bin/busybox poweroff -f
INIT
chmod +x "$work/root/init" "$work/root/run/"*
(cd "$work/root" && find . | cpio -o -H newc --quiet) >"$work/disc/initrd"

# lpj: the kernel waits by the clock rate that the model claims, and Bochs runs far below that rate.
# clearcpuid: Bochs says that fast string operations are off, and with fsrm but without them memmove() of Linux 6.1 is
# wrong; it refuses one of the two AMX states without the other, which is how Linux enables them.
# panic, reboot: a kernel that gives up ends Bochs too.
cp "$kernel" "$work/disc/linux"
cp /usr/lib/ISOLINUX/isolinux.bin /usr/lib/syslinux/modules/bios/ldlinux.c32 "$work/disc"
cat >"$work/disc/isolinux.cfg" <<'BOOT'
DEFAULT linux
LABEL linux
  KERNEL linux
  INITRD initrd
  APPEND console=ttyS0 quiet loglevel=1 nokaslr mitigations=off lpj=100000 clearcpuid=fsrm,amx_tile panic=-1 reboot=t rdinit=/init
BOOT
xorriso -as mkisofs -quiet -o "$work/disc.iso" -b isolinux.bin -c boot.cat \
  -no-emul-boot -boot-load-size 4 -boot-info-table "$work/disc" 2>"$work/xorriso.log" || fail "$(cat "$work/xorriso.log")"

cat >"$work/bochsrc" <<BOCHSRC
config_interface: textconfig
display_library: nogui
cpu: model=$cpu, count=1, ips=50000000, reset_on_triple_fault=0
megs: 512
ata0-master: type=cdrom, path="$work/disc.iso", status=inserted
boot: cdrom
com1: enabled=1, mode=file, dev="$work/serial"
log: "$work/bochs.log"
panic: action=fatal
error: action=ignore
info: action=ignore
BOCHSRC
# Bochs reports an error even when the machine switches itself off: only the marks say how the executable fared.
# In the background, since a shell that waits for a command in the foreground does not react to signals.
timeout "${EMULATE_SECONDS:-1800}" "$bochs" -q -f "$work/bochsrc" </dev/null >"$work/bochs.out" 2>&1 &
emulator=$!
wait "$emulator" || true
emulator=

[ -f "$work/serial" ] || fail "Bochs did not start: $(cat "$work/bochs.out" "$work/bochs.log" 2>&1 | grep -i 'panic\|error')"
tr -d '\r' <"$work/serial" >"$work/text"
status=$(sed -n 's/^.*=== status \([0-9]*\)$/\1/p' "$work/text" | tail -n 1)
sed -n '/^=== begin$/,/=== status [0-9]*$/p' "$work/text" | sed '1d;s/=== status [0-9]*$//;${/^$/d}'
if [ -z "$status" ]; then
  tail -n 20 "$work/text" >&2
  tail -n 5 "$work/bochs.log" >&2
  fail "the executable did not end"
fi
exit "$status"

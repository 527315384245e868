#include "convolution.hpp"

#include <algorithm>
#include <numeric>

namespace prunus {

namespace {

constexpr uint32_t kNone = 0xffffffffu;
constexpr long kListChunk = 8192;  // weights of a 1x1 layer: with their places 64 KiB
constexpr long kListPerInput = 14;  // weights that each input must meet in a chunk to be worth reading again

Convolution::Path choose_path(const ConvolutionSpec& s, const Windows& windows, const Shape& output) {
  const WindowSpec& w = s.window;
  const bool single = w.kernel[0] == 1 && w.kernel[1] == 1 && !(w.pads[0] | w.pads[1] | w.pads[2] | w.pads[3]);
  if (single && !windows.crops()) {
    if (output.pixels() == 1 && s.groups == 1) return Convolution::Path::vectorwise;
    return Convolution::Path::pointwise;
  }
  if (s.groups > 1 && s.inputs == s.groups && !windows.crops()) return Convolution::Path::depthwise;
  return Convolution::Path::direct;
}

// The cost of a 1x1 layer in vector operations. A full one reads every weight for six outputs at once and hardly waits
// for memory; a sparse one loads its input for each weight, from the second-level cache where there are many inputs.
bool dense_is_faster(long used, long inputs, long outputs, long blocks) {
  const double sparse = used * (blocks * (inputs > 256 ? 1.55 : 1.25) + 1.5);
  const double dense = static_cast<double>(inputs) * ((outputs + kRows - 1) / kRows * kRows) * blocks * 1.05;
  return dense < sparse;
}

}  // namespace

Convolution::Convolution(const ConvolutionSpec& spec, Program& program, int input, const uint8_t* kept,
                         const float* kernels)
    : spec_(spec),
      kernels_(program.kernels()),
      windows_(spec.window, program.shape(input), program.shape(program.next_value())),
      path_(choose_path(spec, windows_, program.shape(program.next_value()))),
      weights_(kernels),
      domains_(program.domains()) {
  program.need_slack(windows_.reach() + 8 * kBlock);
  const long all = static_cast<long>(spec.outputs) * (spec.inputs / spec.groups);
  num_kept_ = std::accumulate(kept, kept + all, 0L);
  if (path_ == Path::direct || path_ == Path::depthwise) prepare_direct(kept, kernels);
  else prepare_rows(kept, kernels, windows_.copies() ? windows_.channel() : program.shape(input).plane());
}

// Kernels of windows are stored by group, input, output; those of one pixel by group, output, input.
void Convolution::prepare_direct(const uint8_t* kept, const float* kernels) {
  const int outputs = spec_.outputs / spec_.groups, inputs = spec_.inputs / spec_.groups;
  const long taps = windows_.window().taps;
  std::vector<uint32_t> number;  // of a kept kernel in the order (input, output), among those that are stored
  std::vector<uint32_t> rank(static_cast<size_t>(spec_.outputs) * inputs, kNone);
  for (size_t k = 0, next = 0; k < rank.size(); k++)
    if (kept[k]) rank[k] = static_cast<uint32_t>(next++);
  if (path_ == Path::depthwise) {
    kernel_of_ = rank;  // one input a group: the order of the outputs
    return;
  }
  union_start_.assign(static_cast<size_t>(blocks_of_outputs()) * spec_.inputs, 0);
  for (int i = 0; i < spec_.inputs; i++) {
    const int group = i / inputs, within = i % inputs;
    int block = -1;
    for (int o = 0; o < outputs; o++) {
      const int output = group * outputs + o;
      while (block < output / kOutputBlock)
        union_start_[static_cast<size_t>(++block) * spec_.inputs + i] = static_cast<uint32_t>(number.size());
      const size_t stored = static_cast<size_t>(group) * outputs * inputs +
                            (taps > 1 ? static_cast<size_t>(within) * outputs + o : static_cast<size_t>(o) * inputs + within);
      if (rank[stored] == kNone) continue;
      number.push_back(rank[stored]);
      union_output_.push_back(static_cast<uint16_t>(output % kOutputBlock));
    }
    while (++block < blocks_of_outputs())
      union_start_[static_cast<size_t>(block) * spec_.inputs + i] = static_cast<uint32_t>(number.size());
  }
  if (taps == 1) {  // a padded 1x1 layer: rare, so that a copy in the other order will do
    for (uint32_t each : number) own_weights_.push_back(kernels[each]);
    weights_ = own_weights_.data();
    kernel_of_ = number;
  }
}

void Convolution::prepare_rows(const uint8_t* kept, const float* kernels, long plane) {
  const int outputs = spec_.outputs / spec_.groups, inputs = spec_.inputs / spec_.groups;
  const long padded = (spec_.inputs + kBlock - 1) / kBlock * kBlock;
  if (path_ == Path::vectorwise) rows_.grow(spec_.outputs * padded);
  if (path_ == Path::pointwise) {  // a list should be long enough to be worth its beginning
    const long per_list = num_kept_ / spec_.outputs / 24;
    input_blocks_ = static_cast<int>(std::max(1L, std::min((inputs + kInputBlock - 1L) / kInputBlock, per_list)));
  }
  union_start_.push_back(0);
  words_.push_back(0);
  for (int o = 0; o < spec_.outputs; o++) {
    for (int block = 0; block < input_blocks_; block++) {
      for (int i = inputs * block / input_blocks_; i < inputs * (block + 1) / input_blocks_; i++) {
        if (!kept[static_cast<size_t>(o) * inputs + i]) continue;
        const int column = o / outputs * inputs + i;
        if (path_ == Path::vectorwise) rows_.data()[o * padded + column] = kernels[places_.size()];
        places_.push_back(static_cast<uint32_t>(path_ == Path::vectorwise ? column : column * plane));
      }
      const uint32_t count = static_cast<uint32_t>(places_.size()) - union_start_.back();
      union_start_.push_back(static_cast<uint32_t>(places_.size()));
      words_.push_back(words_.back() + (count + kBlock - 1) / kBlock);
    }
  }
}

void Convolution::set_domain(int domain, const uint8_t* used, const float* scale, const float* bias, const float* ones) {
  Domain& d = domains_.at(domain);
  const auto take = [](std::vector<float>& to, const float* from, long count) {
    if (from) to.assign(from, from + count);
  };
  take(d.scale, scale, spec_.outputs);
  take(d.bias, bias, spec_.outputs);
  if (ones && (path_ == Path::pointwise || path_ == Path::vectorwise)) {  // no padding: ones everywhere, a bias
    d.bias.resize(spec_.outputs, 0.0f);
    for (int o = 0; o < spec_.outputs; o++) d.bias[o] += ones[o] * (scale ? scale[o] : 1.0f);
    ones = nullptr;
  }
  take(d.ones, ones, spec_.outputs * windows_.window().taps);
  if (ones && !ones_.size()) ones_ = windows_.ones(kernels_, ones_slack());
  switch (path_) {
    case Path::direct: set_direct(d, used); break;
    case Path::depthwise: d.used.assign(used, used + num_kept_); break;
    default: set_pointwise(d, used);
  }
}

void Convolution::set_direct(Domain& d, const uint8_t* used) {
  const int inputs = spec_.inputs;
  for (int block = 0; block < blocks_of_outputs(); block++) {
    const uint32_t* start = union_start_.data() + static_cast<size_t>(block) * inputs;
    for (int i = 0; i < inputs; i++) {
      d.start.push_back(static_cast<uint32_t>(d.list.size()));
      const uint32_t end = block + 1 < blocks_of_outputs() ? start[inputs + i]
                           : i + 1 < inputs                ? union_start_[i + 1]
                                                           : static_cast<uint32_t>(num_kept_);
      for (uint32_t k = start[i]; k < end; k++)
        if (used[kernel_of_.empty() ? k : kernel_of_[k]]) d.list.push_back(static_cast<uint16_t>(k - start[i]));
    }
    d.start.push_back(static_cast<uint32_t>(d.list.size()));
  }
  d.list.shrink_to_fit();
}

// Divide the outputs into chunks whose lists stay in the second-level cache, unless there are enough pixels for every
// weight to be worth a longer way.
void Convolution::set_lists(Domain& d, const uint8_t* used, long count) {
  d.bits.assign(words_.back(), 0);
  for (size_t list = 0; list + 1 < union_start_.size(); list++)
    for (uint32_t k = union_start_[list]; k < union_start_[list + 1]; k++)
      if (const uint32_t place = k - union_start_[list]; used[k])
        d.bits[words_[list] + place / kBlock] |= static_cast<uint16_t>(1u << place % kBlock);
  const long wanted = windows_.lattice().blocks() > 8 ? 1 : std::max(1L, count / std::max(kListChunk, kListPerInput * spec_.inputs));
  const long chunks = std::min<long>(spec_.outputs, wanted);
  for (long chunk = 0; chunk <= chunks; chunk++) d.chunks.push_back(static_cast<int>(spec_.outputs * chunk / chunks));
  for (long chunk = 0; chunk < chunks; chunk++) set_starts(d, used, d.chunks[chunk], d.chunks[chunk + 1]);
}

// Find where the lists of a chunk begin once they are selected: one block of inputs after the other.
void Convolution::set_starts(Domain& d, const uint8_t* used, int first, int last) const {
  uint32_t place = 0;
  for (int block = 0; block < input_blocks_; block++, place += kBlock) {
    for (int o = first; o < last; o++) {
      const size_t list = static_cast<size_t>(o) * input_blocks_ + block;
      d.start.push_back(place);
      for (uint32_t k = union_start_[list]; k < union_start_[list + 1]; k++) place += used[k] != 0;
    }
    d.start.push_back(place);
  }
}

void Convolution::set_pointwise(Domain& d, const uint8_t* used) {
  const long padded = (spec_.inputs + kBlock - 1) / kBlock, count = std::accumulate(used, used + num_kept_, 0L);
  if (path_ == Path::vectorwise) {
    d.bits.assign(spec_.outputs * padded, 0);
    for (int o = 0; o < spec_.outputs; o++)
      for (uint32_t k = union_start_[o]; k < union_start_[o + 1]; k++)
        if (used[k]) d.bits[o * padded + places_[k] / kBlock] |= static_cast<uint16_t>(1u << places_[k] % kBlock);
    return;
  }
  if (spec_.groups == 1 && dense_is_faster(count, spec_.inputs, spec_.outputs, windows_.lattice().blocks())) {
    d.mask.assign(used, used + num_kept_);
    for (const Domain& other : domains_)
      if (&other != &d && other.packed && other.mask == d.mask) d.packed = other.packed;
    if (d.packed) return;
    const long panels = (spec_.outputs + kRows - 1) / kRows;
    const long plane = windows_.channel();
    d.packed = std::make_shared<Floats>(panels * spec_.inputs * kRows);
    for (int o = 0; o < spec_.outputs; o++)
      for (uint32_t k = union_start_[o * input_blocks_]; k < union_start_[(o + 1) * input_blocks_]; k++)
        if (used[k])
          d.packed->data()[(static_cast<long>(o) / kRows * spec_.inputs + places_[k] / plane) * kRows + o % kRows] = weights_[k];
    return;
  }
  set_lists(d, used, count);
}

const char* Convolution::path(int domain) const {
  switch (path_) {
    case Path::direct: return "direct";
    case Path::depthwise: return "depthwise";
    case Path::vectorwise: return "vectorwise";
    case Path::pointwise: return domains_.at(domain).packed ? "dense pointwise" : "pointwise";
  }
  return "";
}

Epilogue Convolution::epilogue(const Run& run, const Domain& d, long image, int first) const {
  const float* residual = nullptr;
  const long plane = run.program.shape(output).plane();
  if (inputs.size() > 1) residual = run.value(inputs[1], image) + first * plane;
  return {d.scale.empty() ? nullptr : d.scale.data() + first,
          d.bias.empty() ? nullptr : d.bias.data() + first,
          residual,
          plane,
          spec_.activation,
          spec_.slope};
}

void Convolution::run(const Run& run) const {
  const Domain& d = domains_[run.domain];
  windows_.prepare_all(run, inputs[0], spec_.inputs);
  switch (path_) {
    case Path::direct: return run_direct(run, d);
    case Path::depthwise: return run_depthwise(run, d);
    case Path::vectorwise: return run_vectorwise(run, d);
    case Path::pointwise: return d.packed ? run_dense(run, d) : run_pointwise(run, d);
  }
}

namespace {

// How many parts to divide the blocks of an image into, so that all threads have work.
long parts_for(const Run& run, long items, long blocks) {
  const int threads = run.context.workers.threads();
  if (threads == 1) return 1;
  const long wanted = (4L * threads + items - 1) / items, pairs = (blocks + 1) / 2;
  return std::max(1L, std::min(wanted, pairs));
}

struct Part {
  long first, last;
};

Part part_of(long blocks, long parts, long part) {  // whole pairs of blocks: the widest tile
  const long pairs = (blocks + 1) / 2;
  return {std::min(blocks, pairs * part / parts * 2), std::min(blocks, pairs * (part + 1) / parts * 2)};
}

}  // namespace

void Convolution::run_direct(const Run& run, const Domain& d) const {
  const Shape& out = run.program.shape(output);
  const long plane = windows_.crops() ? windows_.lattice().plane() : out.plane();
  const long blocks = windows_.lattice().blocks(), outs = blocks_of_outputs();
  const long channel = windows_.copies() ? windows_.channel() : run.program.shape(inputs[0]).plane();
  const long parts = parts_for(run, run.images * outs, blocks), taps = windows_.window().taps;
  if (windows_.crops()) run.context.cropped.grow(run.images * spec_.outputs * plane);
  run.context.workers.each(run.images * outs * parts, [&](long item, int worker) {
    const long image = item / (outs * parts), block = item / parts % outs;
    const Part part = part_of(blocks, parts, item % parts);
    const int first = static_cast<int>(block) * kOutputBlock;
    float* target = windows_.crops() ? run.context.cropped.data() + image * spec_.outputs * plane : run.value(output, image);
    Direct j{};
    j.window = windows_.window();
    j.pixels = windows_.lattice().pixels();
    j.input = windows_.prepare(run, inputs[0], image);
    j.channel = channel;
    j.inputs = spec_.inputs;
    j.union_start = union_start_.data() + block * spec_.inputs;
    j.union_output = union_output_.data();
    j.start = d.start.data() + block * (spec_.inputs + 1);
    j.list = d.list.data();
    j.weights = weights_;
    if (!d.ones.empty()) {
      j.ones = ones_.data() + ones_slack();
      j.ones_weights = d.ones.data() + first * taps;
    }
    j.outputs = std::min(kOutputBlock, spec_.outputs - first);
    j.output = target + first * plane;
    j.output_plane = plane;
    j.epilogue = windows_.crops() ? Epilogue{} : epilogue(run, d, image, first);
    j.sums = run.context.scratch[worker].sums.data();
    kernels_.direct(j, part.first, part.last);
  });
  if (!windows_.crops()) return;
  run.context.workers.each(run.images * spec_.outputs, [&](long item, int) {
    const long image = item / spec_.outputs, o = item % spec_.outputs;
    float* target = run.value(output, image) + o * out.plane();
    windows_.crop(run.context.cropped.data() + item * plane, target);
    const Epilogue e = epilogue(run, d, image, static_cast<int>(o));
    Elementwise j{Elementwise::Kind::affine, target, nullptr, e.scale ? *e.scale : 1.0f, e.bias ? *e.bias : 0.0f,
                  e.residual ? Activation::none : e.activation, e.slope, target};
    kernels_.elementwise(j, out.blocks());
    if (!e.residual) return;
    Elementwise sum{Elementwise::Kind::add, target, e.residual, 1, 0, e.activation, e.slope, target};
    kernels_.elementwise(sum, out.blocks());
  });
}

void Convolution::run_depthwise(const Run& run, const Domain& d) const {
  const Shape& out = run.program.shape(output);
  const int multiplier = spec_.outputs / spec_.groups;
  const long taps = windows_.window().taps;
  const long channel = windows_.copies() ? windows_.channel() : run.program.shape(inputs[0]).plane();
  static const float zeros[1] = {0};
  run.context.workers.each(run.images * spec_.outputs, [&](long item, int) {
    const long image = item / spec_.outputs, o = item % spec_.outputs;
    const uint32_t kernel = kernel_of_[o];
    const bool on = kernel != kNone && d.used[kernel];
    Depthwise j{};
    j.window = windows_.window();
    if (!on && d.ones.empty()) j.window.taps = 0;
    j.input = windows_.prepare(run, inputs[0], image) + o / multiplier * channel;
    j.weights = on ? weights_ + kernel * taps : zeros;
    if (!d.ones.empty()) {
      j.ones = ones_.data() + ones_slack();
      j.ones_weights = d.ones.data() + o * taps;
      if (!on) {  // the ones alone
        j.input = j.ones;
        j.weights = j.ones_weights;
        j.ones = nullptr;
      }
    }
    j.output = run.value(output, image) + o * out.plane();
    j.epilogue = epilogue(run, d, image, static_cast<int>(o));
    kernels_.depthwise(j, out.blocks());
  });
}

void Convolution::run_pointwise(const Run& run, const Domain& d) const {
  const Shape& out = run.program.shape(output);
  const long blocks = out.blocks(), threads = run.context.workers.threads();
  const long chunks = static_cast<long>(d.chunks.size()) - 1;
  const long parts = threads == 1 || chunks >= threads ? 1 : std::max(1L, std::min(blocks / 6, threads));
  run.context.workers.each(chunks * parts, [&](long item, int worker) {
    const long chunk = item / parts, part = item % parts;
    const int first = d.chunks[chunk], outputs = d.chunks[chunk + 1] - first;
    const long list = static_cast<long>(first) * input_blocks_;
    const uint32_t* start = d.start.data() + list + chunk * input_blocks_;
    Scratch& scratch = run.context.scratch[worker];
    scratch.kept.grow(start[input_blocks_ * (outputs + 1L) - 1] + 2 * kBlock);
    scratch.offsets.resize(std::max<size_t>(scratch.offsets.size(), scratch.kept.size()));
    if (input_blocks_ > 1) scratch.sums.grow(static_cast<long>(outputs) * kPointwiseTile);
    kernels_.select({outputs, input_blocks_, union_start_.data() + list, num_kept_, weights_, places_.data(),
                     d.bits.data() + words_[list], start, scratch.kept.data(), scratch.offsets.data()});
    for (long image = 0; image < run.images; image++) {
      Pointwise j{out.pixels(),
                  windows_.prepare(run, inputs[0], image),
                  input_blocks_,
                  spec_.inputs <= 2 * kInputBlock / 3,
                  outputs,
                  start,
                  scratch.kept.data(),
                  scratch.offsets.data(),
                  run.value(output, image) + first * out.plane(),
                  out.plane(),
                  epilogue(run, d, image, first),
                  scratch.sums.data()};
      kernels_.pointwise(j, blocks * part / parts, blocks * (part + 1) / parts);
    }
  });
}

void Convolution::run_dense(const Run& run, const Domain& d) const {
  const Shape& out = run.program.shape(output);
  const long plane = windows_.copies() ? windows_.channel() : run.program.shape(inputs[0]).plane();
  const long panels = (spec_.outputs + kRows - 1) / kRows, blocks = out.blocks();
  const long threads = run.context.workers.threads();
  const long parts = threads == 1 ? 1 : std::max(1L, std::min(blocks / 8, 4 * threads));
  const long rows = threads == 1 || parts >= 2 * threads ? 1 : std::min(4 * threads, panels);
  run.context.workers.each(run.images * parts * rows, [&](long item, int) {
    const long image = item / (parts * rows), part = item / rows % parts, row = item % rows;
    DensePointwise j{out.pixels(), windows_.prepare(run, inputs[0], image), plane, spec_.inputs, spec_.outputs, d.packed->data(),
                     run.value(output, image), out.plane(), epilogue(run, d, image, 0)};
    kernels_.dense_pointwise(j, static_cast<int>(panels * row / rows), static_cast<int>(panels * (row + 1) / rows),
                             blocks * part / parts, blocks * (part + 1) / parts);
  });
}

void Convolution::run_vectorwise(const Run& run, const Domain& d) const {
  const Shape& out = run.program.shape(output);
  const long plane = windows_.copies() ? windows_.channel() : run.program.shape(inputs[0]).plane();
  const long blocks = (spec_.inputs + kBlock - 1) / kBlock;
  run.context.gathered.grow(blocks * kBlock);
  for (long image = 0; image < run.images; image++) {
    const float* from = windows_.prepare(run, inputs[0], image);
    float* flat = run.context.gathered.data();
    for (int i = 0; i < spec_.inputs; i++) flat[i] = from[i * plane];
    std::fill(flat + spec_.inputs, flat + blocks * kBlock, 0.0f);
    const Vectorwise j{flat, static_cast<int>(blocks), rows_.data(), d.bits.data(), spec_.outputs,
                       run.value(output, image), out.plane(), epilogue(run, d, image, 0)};
    const long rows = std::min<long>(run.context.workers.threads(), spec_.outputs);
    run.context.workers.each(rows, [&](long row, int) {
      kernels_.vectorwise(j, static_cast<int>(spec_.outputs * row / rows), static_cast<int>(spec_.outputs * (row + 1) / rows));
    });
  }
}

}  // namespace prunus

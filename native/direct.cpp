#include "direct.hpp"

#include <algorithm>

namespace prunus {

namespace {

KernelLists make_lists(const ConvolutionSpec& spec, Program& program, const Kept& kept, bool is_point) {
  const KernelLists::Layout layout{spec.inputs, spec.outputs, spec.groups, kOutputBlock, is_point};
  program.count_kept(KernelLists::num_starts(layout, program.domains()));
  return KernelLists(layout, kept.kernels, program.domains());
}

}  // namespace

DirectConvolution::DirectConvolution(const ConvolutionSpec& spec, Program& program, int input, const Kept& kept)
    : Convolution(spec, program, input, kept), lists_(make_lists(spec, program, kept, windows_.window().taps == 1)) {
  if (lists_.keeps_order()) return;
  // a padded 1x1 layer; rare, so its weights are copied
  std::vector<float> in_order(num_kept_);
  copy_wide(kernels_, weights_, 0, num_kept_, in_order.data());
  for (ptrdiff_t kernel = 0; kernel < num_kept_; kernel++) own_weights_.push_back(in_order[lists_.stored(kernel)]);
  weights_ = {own_weights_.data(), Precision::float32};
}

void DirectConvolution::compute(const Run& run) const {
  const ptrdiff_t plane = windows_.crops() ? windows_.lattice().plane() : run.program.shape(output).plane();
  if (windows_.crops()) run.context.cropped.grow(run.images * spec_.outputs * plane);
  const auto work = [&](const Piece& piece, int worker) {
    for (int first = piece.first_channel; first < piece.last_channel; first += kOutputBlock)
      kernels_.direct(job(run, piece.image, first, plane, worker), piece.first_block, piece.last_block);
  };
  run.for_each_piece(windows_.lattice().blocks(), spec_.outputs, work, kOutputBlock);
  if (windows_.crops()) crop(run, plane);
}

// Return the kernel's arguments for one image and one block of outputs.
Direct DirectConvolution::job(const Run& run, ptrdiff_t image, int first, ptrdiff_t plane, int worker) const {
  const ptrdiff_t block = first / kOutputBlock;
  const bool crops = windows_.crops();
  Direct j{};
  j.window = windows_.window();
  j.pixels = windows_.lattice().pixels();
  j.input = input(run, image);
  j.channel = channel_;
  j.inputs = spec_.inputs;
  j.union_start = lists_.kernels(block);
  j.start = lists_.start(run.domain, block);
  j.list = lists_.list(run.domain);
  j.weights = weights_;
  j.ones_weights = ones_weights(run.domain, first);
  j.ones = j.ones_weights ? ones() : nullptr;
  j.outputs = std::min(kOutputBlock, spec_.outputs - first);
  j.shared = run.context.workers.threads() > 1;
  j.output =
      (crops ? run.context.cropped.data() + image * spec_.outputs * plane : run.value(output, image)) + first * plane;
  j.output_plane = plane;
  j.epilogue = crops ? Epilogue{} : epilogue(run, image, first);
  j.sums = run.context.scratch[worker].sums.data();
  j.widened = run.context.scratch[worker].widened.data();
  return j;
}

// Copy the outputs out of a larger lattice, then apply the epilogue.
void DirectConvolution::crop(const Run& run, ptrdiff_t plane) const {
  const Shape& out = run.program.shape(output);
  run.context.workers.for_each(run.images * spec_.outputs, [&](ptrdiff_t item, int) {
    const ptrdiff_t image = item / spec_.outputs, o = item % spec_.outputs;
    float* target = run.value(output, image) + o * out.plane();
    windows_.crop(run.context.cropped.data() + item * plane, target);
    const Epilogue e = epilogue(run, image, static_cast<int>(o));
    const Elementwise scaled{Elementwise::Kind::affine,
                             target,
                             nullptr,
                             e.scale ? *e.scale : 1.0f,
                             e.bias ? *e.bias : 0.0f,
                             e.residual ? Activation::none : e.activation,
                             e.slope,
                             target};
    kernels_.elementwise(scaled, 0, out.blocks());
    if (!e.residual) return;
    const Elementwise sum{Elementwise::Kind::add, target, e.residual, 1, 0, e.activation, e.slope, target};
    kernels_.elementwise(sum, 0, out.blocks());
  });
}

}  // namespace prunus

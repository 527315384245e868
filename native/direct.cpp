#include "direct.hpp"

#include <algorithm>

namespace prunus {

DirectConvolution::DirectConvolution(const ConvolutionSpec& spec, Program& program, int input, const Kept& kept)
    : Convolution(spec, program, input, kept), domains_(program.domains()) {
  const int outputs = spec_.group_outputs(), inputs = spec_.group_inputs(), blocks = blocks_of_outputs();
  program.count_kept((ptrdiff_t{program.domains()} + 1) * blocks * (spec_.inputs + 1));  // the beginnings of the lists
  const bool reordered = windows_.window().taps == 1;  // a padded 1x1 layer; rare, so its weights are copied
  std::vector<uint32_t> rank(reordered ? static_cast<size_t>(spec_.outputs) * inputs : 0);
  for (size_t k = 0, next = 0; k < rank.size(); k++) rank[k] = static_cast<uint32_t>(kept.kernels[k] ? next++ : next);
  union_output_.reserve(num_kept_);
  union_start_.assign(static_cast<size_t>(blocks) * spec_.inputs + 1, static_cast<uint32_t>(num_kept_));
  for (int i = 0; i < spec_.inputs; i++) {
    const int group = i / inputs, within = i % inputs;
    int block = 0;  // all blocks before this one have begun
    const auto begin = [&](int until) {
      for (; block < until; block++)
        union_start_[static_cast<size_t>(block) * spec_.inputs + i] = static_cast<uint32_t>(union_output_.size());
    };
    for (int o = 0; o < outputs; o++) {
      const int output = group * outputs + o;
      begin(output / kOutputBlock + 1);
      const size_t stored =
          static_cast<size_t>(group) * outputs * inputs +
          (reordered ? static_cast<size_t>(o) * inputs + within : static_cast<size_t>(within) * outputs + o);
      if (!kept.kernels[stored]) continue;
      union_output_.push_back(static_cast<uint8_t>(output % kOutputBlock));
      if (reordered) stored_.push_back(rank[stored]);
    }
    begin(blocks);
  }
  if (!reordered) return;
  std::vector<float> in_order(num_kept_);
  copy_wide(kernels_, weights_, 0, num_kept_, in_order.data());
  for (uint32_t kernel : stored_) own_weights_.push_back(in_order[kernel]);
  weights_ = {own_weights_.data(), Precision::float32};
}

void DirectConvolution::set_used(int domain, Bits used) {
  Lists& d = domains_.at(domain);
  d.list.reserve(used.count(0, num_kept_));
  const int inputs = spec_.inputs, blocks = blocks_of_outputs();
  for (int block = 0; block < blocks; block++) {
    for (int i = 0; i < inputs; i++) {
      d.start.push_back(static_cast<uint32_t>(d.list.size()));
      const uint32_t first = union_start_[static_cast<size_t>(block) * inputs + i];
      // the kernels of an input are consecutive, output block by output block; the next input follows
      const size_t next = block + 1 < blocks ? static_cast<size_t>(block + 1) * inputs + i : static_cast<size_t>(i) + 1;
      const uint32_t last =
          block + 1 < blocks || i + 1 < inputs ? union_start_[next] : static_cast<uint32_t>(num_kept_);
      for (uint32_t k = first; k < last; k++)
        if (used[stored_.empty() ? k : stored_[k]]) d.list.push_back(static_cast<uint8_t>(k - first));
    }
    d.start.push_back(static_cast<uint32_t>(d.list.size()));
  }
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
  const Lists& d = domains_[run.domain];
  const ptrdiff_t block = first / kOutputBlock;
  const bool crops = windows_.crops();
  Direct j{};
  j.window = windows_.window();
  j.pixels = windows_.lattice().pixels();
  j.input = input(run, image);
  j.channel = channel_;
  j.inputs = spec_.inputs;
  j.union_start = union_start_.data() + block * spec_.inputs;
  j.union_output = union_output_.data();
  j.start = d.start.data() + block * (spec_.inputs + 1);
  j.list = d.list.data();
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

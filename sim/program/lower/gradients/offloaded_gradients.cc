#include "sim/program/lower/gradients/offloaded_gradients.h"

#include <array>
#include <string>
#include <utility>

#include "sim/program/blocks/block_builder.h"
#include "sim/program/ir/precision.h"
#include "sim/program/lower/layout/bucket_state.h"
#include "sim/program/lower/layout/sharding.h"

namespace foretrain {
namespace {

// Elements of a bucket that leave the device: this rank's shard, or all without the padding, which
// nothing has written.
std::int64_t SumElements(const LowerContext& context, const InstructionKey& key) {
  const Bucket& bucket = context.BucketAt(key.part);
  return IsScattered(context.plan, bucket) ? bucket.elements / bucket.shards : bucket.used;
}

// Gradients on the device that leave it. Reduce-scattered ones lie in a buffer of their own.
TensorUse Leaving(const LowerContext& context, const InstructionKey& key) {
  TensorName name = WholeGradientsName(key.micro_batch, key.part);
  TensorShape shape = WholeGradientsShape(context, key.part);
  const Bucket& bucket = context.BucketAt(key.part);
  if (IsScattered(context.plan, bucket)) {
    name.kind = TensorKind::kReducedGradients;
    shape.bytes /= bucket.shards;
  }
  TensorUse use = Frees(name, shape);
  use.bytes = BytesIn(bucket.sums, SumElements(context, key));
  return use;
}

// The accumulated gradients in pinned memory.
TensorUse SumOf(const LowerContext& context, const InstructionKey& key) {
  TensorUse use = WholeState(&Bucket::gradients, key.part);
  use.format = context.BucketAt(key.part).sums;
  use.bytes = BytesIn(use.format, SumElements(context, key));
  return use;
}

TensorName Arrived(const InstructionKey& key) {
  return {TensorKind::kArrivedGradients, 0, key.micro_batch, key.part};
}
TensorShape ArrivedShape(const LowerContext& context, const InstructionKey& key) {
  const NumberFormat format = context.BucketAt(key.part).sums;
  return {BytesIn(format, SumElements(context, key)), Category::kGradients, format, Space::kPinned};
}

// The first micro-batch is copied straight into the sum, so the sum needs no zeroing. Later ones
// arrive in a buffer of their own, and Add adds them.
template <bool kFirst>
StepDescription Out(const LowerContext& context, const InstructionKey& key) {
  const TensorUse to =
      kFirst ? SumOf(context, key) : Makes(Arrived(key), ArrivedShape(context, key));
  const std::array<Move, 1> moves{Move{Leaving(context, key), to}};
  return Copies("gradients.out", {Space::kDevice, Space::kPinned}, /*state=*/true, moves);
}

StepDescription Add(const LowerContext& context, const InstructionKey& key) {
  const std::int64_t elements = SumElements(context, key);
  const NumberFormat format = context.BucketAt(key.part).sums;
  return {"gradients.add." + std::to_string(elements),
          [=] { return HostAddBlock(elements, format); },
          {SumOf(context, key), Frees(Arrived(key), ArrivedShape(context, key))}};
}

constexpr StepRule kFirstOut{Out<true>};
constexpr StepRule kFurtherOut{Out<false>};
constexpr StepRule kAdd{Add};

InstructionKey KeyOf(InstructionKind kind, const BucketCompletion& done, int block) {
  return {kind, Pass::kBackward, block, done.micro_batch, done.bucket};
}

}  // namespace

SkeletonStep GradientsOutStep(const BucketCompletion& done, int block) {
  return {KeyOf(InstructionKind::kCopyOut, done, block), done.first ? &kFirstOut : &kFurtherOut};
}

SkeletonStep GradientsAddStep(const BucketCompletion& done, int block) {
  return {KeyOf(InstructionKind::kAccumulate, done, block), &kAdd};
}

// An offloaded sum has to visit the device for a collective: it is copied in, reduced and copied
// out.
StepDescription GradientSum(const Plan& plan, CollectiveSpec spec, const TensorUse& range) {
  spec.format = range.format;
  if (!GradientsAreOffloaded(plan)) return Collective(spec, {range});
  std::string name = spec.name + ".away." + std::to_string(static_cast<int>(spec.group)) + "." +
                     std::to_string(spec.elements);
  const TensorUse here = Borrows({range.bytes, Category::kCommunication, spec.format});
  return {std::move(name), [spec] { return SumOffloadedBlock(spec); }, {range, here}};
}

// The key names all range sizes, because the block has one op per range.
StepDescription GradientScalar(const Plan& plan, const ScalarOfRanges& scalar,
                               std::vector<TensorUse> ranges) {
  const bool offloaded = GradientsAreOffloaded(plan);
  const NumberFormat format = SumFormat(plan);
  std::vector<std::int64_t> elements;
  std::string name = scalar.name;
  for (const TensorUse& range : ranges) {
    elements.push_back(ElementsIn(format, range.bytes));
    name += "." + std::to_string(elements.back());
  }
  if (offloaded) ranges.push_back(Uses(scalar.made));
  ranges.push_back(Uses(scalar.here));
  return {std::move(name),
          [=, block = scalar.block, elements = std::move(elements)] {
            return block(elements, format, offloaded);
          },
          std::move(ranges)};
}

}  // namespace foretrain

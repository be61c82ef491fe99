#include "sim/program/lower/gradients_away.h"

#include <array>
#include <string>
#include <utility>

#include "sim/program/blocks/block_builder.h"
#include "sim/program/lower/offload_copies.h"
#include "sim/program/lower/sharding.h"
#include "sim/program/precision.h"

namespace foretrain {
namespace {

// What leaves of a bucket: this rank's shard, or all but the padding, which nothing has written.
std::int64_t SumElements(const LowerContext& context, const InstructionKey& key) {
  const Bucket& bucket = context.BucketAt(key.part);
  return IsScattered(context.plan, bucket) ? bucket.elements / bucket.shards : bucket.used;
}

// Scattered gradients have a buffer of their own.
Binding TakeLeaving(RankBuilder& rank, const InstructionKey& key) {
  const bool scattered = IsScattered(rank.Context().plan, rank.BucketOf(key));
  const TensorKind kind = scattered ? TensorKind::kReducedGradients : TensorKind::kWholeGradients;
  const TensorName name{kind, 0, key.micro_batch, key.part};
  const int buffer = rank.Tensors().At(name);
  rank.Tensors().Drop(name);
  return rank.Part(buffer, 0, SumElements(rank.Context(), key));
}

TensorName Arrived(const InstructionKey& key) {
  return {TensorKind::kArrivedGradients, 0, key.micro_batch, key.part};
}

Binding SumOf(RankBuilder& rank, const InstructionKey& key) {
  return rank.Part(rank.BucketOf(key).gradients, 0, SumElements(rank.Context(), key));
}

template <bool kFirst>
void EmitOut(RankBuilder& rank, const InstructionKey& key) {
  const Binding from = TakeLeaving(rank, key);
  Binding to = SumOf(rank, key);
  if (!kFirst) {
    const int buffer =
        rank.NewBuffer(from.bytes, Category::kGradients, Space::kPinned, rank.FormatOf(from));
    to = rank.Whole(rank.Tensors().Put(Arrived(key), buffer));
  }
  const std::array<Move, 1> moves{Move{from, to}};
  AddCopies(rank, key, "gradients.out", /*state=*/true, moves);
}

void EmitAdd(RankBuilder& rank, const InstructionKey& key) {
  const std::int64_t elements = SumElements(rank.Context(), key);
  const NumberFormat format = rank.BucketOf(key).sums;
  const int block = rank.FindBlock("gradients.add." + std::to_string(elements),
                                   [&] { return HostAddBlock(elements, format); });
  rank.Add(key, block, {SumOf(rank, key), rank.Whole(rank.Tensors().At(Arrived(key)))});
  rank.Tensors().Drop(Arrived(key));
}

StepMemory OutMemory(const LowerContext& context, const InstructionKey& key) {
  const Bucket& bucket = context.BucketAt(key.part);
  const int shards = IsScattered(context.plan, bucket) ? bucket.shards : 1;
  return FreesBytes(Category::kGradients, BytesIn(bucket.sums, bucket.elements / shards));
}
std::int64_t SumBytes(const LowerContext& context, const InstructionKey& key) {
  return BytesIn(context.BucketAt(key.part).sums, SumElements(context, key));
}
StepMemory ArrivalMemory(const LowerContext& context, const InstructionKey& key, Space space) {
  if (space != Space::kPinned) return {};
  return MakesBytes(Category::kGradients, SumBytes(context, key));
}
StepMemory AddMemory(const LowerContext& context, const InstructionKey& key, Space space) {
  if (space != Space::kPinned) return {};
  return FreesBytes(Category::kGradients, SumBytes(context, key));
}

constexpr StepRule kFirstOut{EmitOut<true>, OutMemory};
constexpr StepRule kFurtherOut{EmitOut<false>, OutMemory, ArrivalMemory};
constexpr StepRule kAdd{EmitAdd, nullptr, AddMemory};

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

void AddGradientSum(RankBuilder& rank, const InstructionKey& key, CollectiveSpec spec,
                    const Binding& range) {
  spec.format = rank.FormatOf(range);
  if (!GradientsAreAway(rank.Context().plan)) {
    rank.Add(key, rank.FindCollective(spec), {range});
    return;
  }
  const std::string name = spec.name + ".away." + std::to_string(static_cast<int>(spec.group)) +
                           "." + std::to_string(spec.elements);
  const int block = rank.FindBlock(name, [&] { return SumAwayBlock(spec); });
  const int here =
      rank.NewBuffer(range.bytes, Category::kCommunication, Space::kDevice, spec.format);
  rank.Add(key, block, {range, rank.Whole(here)});
}

StepMemory GradientSumMemory(const Plan& plan, std::int64_t elements) {
  if (!GradientsAreAway(plan)) return {};
  return BorrowsBytes(Category::kCommunication, BytesIn(SumFormat(plan), elements));
}

void AddGradientScalar(RankBuilder& rank, const InstructionKey& key, const char* name,
                       std::vector<Binding> ranges,
                       Block (*make)(const std::vector<std::int64_t>& range_elements,
                                     NumberFormat format, bool away),
                       TensorKind made, TensorKind here) {
  const bool away = GradientsAreAway(rank.Context().plan);
  const NumberFormat format = SumFormat(rank.Context().plan);
  std::vector<std::int64_t> elements;
  std::string text = name;
  for (const Binding& range : ranges) {
    elements.push_back(ElementsIn(format, range.bytes));
    text += "." + std::to_string(elements.back());
  }
  const int block = rank.FindBlock(text, [&] { return make(elements, format, away); });
  if (away) ranges.push_back(rank.Whole(rank.Tensors().At({made})));
  ranges.push_back(rank.Whole(rank.Tensors().At({here})));
  rank.Add(key, block, ranges);
}

}  // namespace foretrain

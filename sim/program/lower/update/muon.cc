#include "sim/program/lower/update/muon.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "sim/program/blocks/block_builder.h"
#include "sim/program/ir/precision.h"
#include "sim/program/lower/layout/bucket_state.h"
#include "sim/program/lower/layout/sharding.h"
#include "sim/program/lower/transfers/transfer_steps.h"

namespace foretrain {
namespace {

constexpr double kMomentum = 0.95;
constexpr int kIterations = 5;
// Of x (a I + b A + c A^2) with A = x x^T, which drives all singular values towards 1.
constexpr double kA = 3.4445, kB = -4.775, kC = 2.0315;
// Root mean square of an update of AdamW, which a matrix's update is scaled to.
constexpr double kUpdateSize = 0.2;
// A norm that no gradient has. The update clips nothing by it, as the momentum is clipped already,
// but is skipped where the gradient's norm is not finite.
constexpr double kClipsNothing = 1e30;

// key.block of the two steps after the momentum: tells them from steps of the bucket's own.
constexpr int kAfter = 1;

std::int64_t PaddedShardElements(const Bucket& bucket) { return bucket.elements / bucket.shards; }

TensorName ShardName(int bucket) { return {TensorKind::kMomentumShard, 0, 0, bucket}; }
TensorName WholeName(int bucket) { return {TensorKind::kMomentumWhole, 0, 0, bucket}; }
TensorShape ShapeOf(std::int64_t elements) {
  return {BytesIn(NumberFormat::kFp32, elements), Category::kWorkspace, NumberFormat::kFp32};
}

// out = alpha x + beta out. Beta 0: out is written.
Op& AddCombine(BlockBuilder& b, const std::string& name, std::int16_t x, std::int16_t out,
               std::int64_t elements, double alpha, double beta, std::int16_t norm = kNoSlot) {
  Op& op = b.Add(OpKind::kCombine, OpClass::kMemoryBound, name,
                 {In(x), beta == 0 ? Out(out) : InOut(out), In(norm)});
  op.accumulate = beta != 0;
  op.Set(Attribute::kAlpha, alpha);
  op.Set(Attribute::kBeta, beta);
  op.shape = {.elements = elements};
  return op;
}

// Slots: gradient, moment, squared norm (empty if the plan does not clip), what is orthogonalized.
// m = mu m + (1 - mu) g, and Nesterov's mu m + (1 - mu) g with the new m.
Block MomentumBlock(const Plan& plan, std::int64_t elements) {
  BlockBuilder b("muon.momentum");
  const auto slot = [&](const char* name, std::int64_t count, Category category, int index,
                        NumberFormat format = NumberFormat::kFp32) {
    return b.SlotIn(format, name, count, category, SlotRole::kOther, index);
  };
  const std::int16_t grad = slot("grad", elements, Category::kGradients, 0, SumFormat(plan));
  const std::int16_t moment = slot("moment", elements, Category::kOptimizerState, 1);
  const std::int16_t norm = slot("squared_norm", plan.clip_norm > 0, Category::kWorkspace, 2);
  const std::int16_t out = slot("momentum", elements, Category::kWorkspace, 3);
  AddCombine(b, "moment", grad, moment, elements, 1 - kMomentum, kMomentum, norm)
      .Set(Attribute::kClipNorm, plan.clip_norm);
  AddCombine(b, "nesterov.gradient", grad, out, elements, 1 - kMomentum, 0, norm)
      .Set(Attribute::kClipNorm, plan.clip_norm);
  AddCombine(b, "nesterov.moment", moment, out, elements, kMomentum, 1);
  return b.Take();
}

// Product of two dense matrices in fp32.
Op& AddProduct(BlockBuilder& b, const std::string& name, std::int16_t x, std::int16_t y,
               std::int16_t out, const OpShape& shape) {
  Op& op = b.Gemm(name, {x}, {y}, kNoSlot, Out(out));
  op.shape = shape;
  return op;
}

// Workspace of an update, which its matrices use in turn: elements of the largest one, and of the
// square of its shorter side.
struct Workspace {
  std::int64_t all = 0, square = 0;
  // Slots.
  std::int16_t norm = kNoSlot, x = kNoSlot, next = kNoSlot, a = kNoSlot, polynomial = kNoSlot;
};
template <class Parts>
Workspace WorkspaceOf(const Parts& parts) {
  Workspace work;
  for (const auto& part : parts) {
    const std::int64_t shorter = std::min(part.matrix.rows, part.matrix.cols);
    work.all = std::max(work.all, part.matrix.rows * part.matrix.cols);
    work.square = std::max(work.square, shorter * shorter);
  }
  return work;
}

// Orthogonalizes a matrix by five Newton-Schulz iterations and returns the slot of the result. The
// shorter side's products are small: A has the square of the shorter side.
std::int16_t Orthogonalize(BlockBuilder& b, const std::string& suffix, std::int16_t momentum,
                           const MatrixPlace& matrix, const Workspace& work) {
  const bool wide = matrix.rows <= matrix.cols;
  const std::int64_t shorter = std::min(matrix.rows, matrix.cols);
  const std::int64_t longer = std::max(matrix.rows, matrix.cols);
  const std::int64_t all = matrix.rows * matrix.cols, square = shorter * shorter;
  const auto view = [&](const char* name, std::int16_t of, std::int64_t elements) {
    return b.View(name + suffix, of, 0, elements);
  };
  const std::int16_t norm = work.norm;
  std::int16_t x = view("x", work.x, all), next = view("next", work.next, all);
  const std::int16_t a = view("a", work.a, square);
  const std::int16_t poly = view("polynomial", work.polynomial, square);
  b.Add(OpKind::kSquaredNorm, OpClass::kMemoryBound, "norm" + suffix, {In(momentum), Out(norm)})
      .shape = {.elements = all};
  AddCombine(b, "normalize" + suffix, momentum, x, all, 1, 0, norm);
  const OpShape inner{.rows = shorter, .cols = shorter, .inner = shorter};
  for (int i = 0; i < kIterations; ++i) {
    const std::string at = suffix + "." + std::to_string(i);
    Op& gram =
        AddProduct(b, "gram" + at, x, x, a, {.rows = shorter, .cols = shorter, .inner = longer});
    (wide ? gram.trans_b : gram.trans_a) = true;
    AddProduct(b, "square" + at, a, a, poly, inner).Set(Attribute::kFactor, kC);
    AddCombine(b, "polynomial" + at, a, poly, square, kB, 1);
    AddProduct(b, "product" + at, wide ? poly : x, wide ? x : poly, next,
               {.rows = matrix.rows, .cols = matrix.cols, .inner = shorter});
    AddCombine(b, "sum" + at, x, next, all, kA, 1);
    std::swap(x, next);
  }
  return x;
}

// A matrix with a part in the shard: its number in the bucket, and the part's elements, counted in
// the bucket.
struct Part {
  std::size_t number = 0;
  MatrixPlace matrix;
  ShardRange range;
};
std::vector<Part> PartsOf(const LowerContext& context, int bucket) {
  const ShardRange shard = ShardOf(context.BucketAt(bucket));
  const auto& matrices = context.layout.matrices[static_cast<std::size_t>(bucket)];
  std::vector<Part> parts;
  for (std::size_t i = 0; i < matrices.size(); ++i) {
    const MatrixPlace& matrix = matrices[i];
    const ShardRange range{std::max(matrix.offset, shard.begin),
                           std::min(matrix.offset + matrix.rows * matrix.cols, shard.end)};
    if (range.begin < range.end) parts.push_back({i, matrix, range});
  }
  return parts;
}

// Slots: parameters of the shard, what is orthogonalized of the whole bucket, weights of which the
// parameters are masters, moving average; the workspace; squared norm. The third, the fourth and
// the last may be empty.
Block UpdateBlock(const Plan& plan, const ShardRange& shard, std::int64_t whole,
                  const std::vector<Part>& parts) {
  BlockBuilder b("muon.update");
  const std::int64_t elements = shard.end - shard.begin;
  const bool masters = HasMasters(plan);
  const auto slot = [&](const char* name, std::int64_t count, Category category, int index,
                        NumberFormat format = NumberFormat::kFp32) {
    return b.SlotIn(format, name, count, category, SlotRole::kOther, index);
  };
  const std::int16_t param =
      slot("param", elements, masters ? Category::kMasterWeights : Category::kParameters, 0,
           masters ? NumberFormat::kFp32 : WeightFormat(plan));
  const std::int16_t momentum = slot("momentum", whole, Category::kWorkspace, 1);
  const std::int16_t weights =
      slot("weights", masters ? elements : 0, Category::kParameters, 2, WeightFormat(plan));
  const std::int16_t average =
      slot("average", plan.average_decay > 0 ? elements : 0, Category::kOptimizerState, 3);
  Workspace work = WorkspaceOf(parts);
  work.norm = slot("norm", 1, Category::kWorkspace, 4);
  work.x = slot("x", work.all, Category::kWorkspace, 5);
  work.next = slot("next", work.all, Category::kWorkspace, 6);
  work.a = slot("a", work.square, Category::kWorkspace, 7);
  work.polynomial = slot("polynomial", work.square, Category::kWorkspace, 8);
  const std::int16_t squared_norm =
      slot("squared_norm", plan.clip_norm > 0, Category::kWorkspace, 9);
  for (const Part& part : parts) {
    const std::string suffix = "." + std::to_string(part.number);
    const MatrixPlace& matrix = part.matrix;
    const std::int64_t count = part.range.end - part.range.begin;
    const auto view = [&](const char* name, std::int16_t of, std::int64_t first) {
      return b.View(name + suffix, of, part.range.begin - first, count);
    };
    const std::int16_t direction = Orthogonalize(
        b, suffix, b.View("momentum" + suffix, momentum, matrix.offset, matrix.rows * matrix.cols),
        matrix, work);
    Op& op = b.Add(
        OpKind::kSgd, OpClass::kMemoryBound, "muon" + suffix,
        {InOut(view("param", param, shard.begin)), In(view("direction", direction, matrix.offset)),
         In(squared_norm), In(kNoSlot),
         Out(weights == kNoSlot ? kNoSlot : view("weights", weights, shard.begin)), In(kNoSlot)});
    op.shape = {.elements = count, .decayed = count};
    const double longer = static_cast<double>(std::max(matrix.rows, matrix.cols));
    op.Set(Attribute::kLossScale, 1 / (kUpdateSize * std::sqrt(longer)));  // divides the direction
    op.Set(Attribute::kClipNorm, plan.clip_norm > 0 ? kClipsNothing : 0);
  }
  if (plan.average_decay > 0) {
    Op& op = b.Add(OpKind::kAverage, OpClass::kMemoryBound, "average", {In(param), InOut(average)});
    op.Set(Attribute::kAverageRate, 1 - plan.average_decay);
    op.shape = {.elements = elements};
  }
  return b.Take();
}

// Works on the shard with its padding, so that the gather reads nothing that was not written.
StepDescription Momentum(const LowerContext& context, const InstructionKey& key) {
  const Plan& plan = context.plan;
  const std::int64_t elements = PaddedShardElements(context.BucketAt(key.part));
  std::vector<TensorUse> uses = {ShardOfGradients(context, key.part),
                                 WholeState(&Bucket::moment1, key.part)};
  if (plan.clip_norm > 0) uses.push_back(Uses(TensorKind::kNorm));
  uses.push_back(Makes(ShardName(key.part), ShapeOf(elements)));
  return {"muon.momentum." + std::to_string(elements),
          [&plan, elements] { return MomentumBlock(plan, elements); }, std::move(uses)};
}

StepDescription MomentumGather(const LowerContext& context, const InstructionKey& key) {
  const Bucket& bucket = context.BucketAt(key.part);
  CollectiveSpec spec{OpKind::kAllGather, "gather.momentum", Queue::kGather,
                      ShardGroup(bucket), bucket.elements,   bucket.shards};
  return Collective(spec, {Frees(ShardName(key.part), ShapeOf(PaddedShardElements(bucket))),
                           Makes(WholeName(key.part), ShapeOf(bucket.elements))});
}

StepDescription Update(const LowerContext& context, const InstructionKey& key) {
  const Plan& plan = context.plan;
  const Bucket& bucket = context.BucketAt(key.part);
  const ShardRange shard = ShardOf(bucket);
  std::vector<Part> parts = PartsOf(context, key.part);
  std::string name = "muon.update." + std::to_string(shard.begin) + "." + std::to_string(shard.end);
  for (const Part& part : parts) {
    name += "." + std::to_string(part.matrix.offset) + ":" + std::to_string(part.matrix.rows) +
            "x" + std::to_string(part.matrix.cols);
  }
  const TensorName momentum = bucket.shards > 1 ? WholeName(key.part) : ShardName(key.part);
  std::vector<TensorUse> uses = {UpdatedIn(context, key.part, shard),
                                 Frees(momentum, ShapeOf(bucket.elements))};
  if (HasMasters(plan)) uses.push_back(ParametersIn(context, key.part, shard));
  if (plan.average_decay > 0) {
    TensorUse average = WholeState(&Bucket::average, key.part);
    average.bytes = BytesIn(NumberFormat::kFp32, shard.end - shard.begin);
    uses.push_back(average);
  }
  const Workspace work = WorkspaceOf(parts);
  for (const std::int64_t elements :
       {std::int64_t{1}, work.all, work.all, work.square, work.square}) {
    uses.push_back(Borrows(ShapeOf(elements)));
  }
  if (plan.clip_norm > 0) uses.push_back(Uses(TensorKind::kNorm));
  return {std::move(name),
          [&plan, shard, whole = bucket.elements, parts = std::move(parts)] {
            return UpdateBlock(plan, shard, whole, parts);
          },
          std::move(uses)};
}

constexpr StepRule kMomentumRule{Momentum};
constexpr StepRule kGatherRule{MomentumGather};
constexpr StepRule kUpdateRule{Update};

}  // namespace

// Ranks whose shard is padding alone take part in the gather and drop what they get.
Skeleton MuonSteps(const LowerContext& context, int bucket) {
  const auto key = [&](InstructionKind kind, int block) {
    return InstructionKey{kind, Pass::kUpdate, block, 0, bucket};
  };
  Skeleton steps;
  steps.push_back({key(InstructionKind::kOptimizerStep, 0), &kMomentumRule});
  if (context.BucketAt(bucket).shards > 1) {
    steps.push_back({key(InstructionKind::kAllGather, kAfter), &kGatherRule});
  }
  const ShardRange shard = ShardOf(context.BucketAt(bucket));
  if (shard.end > shard.begin) {
    steps.push_back({key(InstructionKind::kOptimizerStep, kAfter), &kUpdateRule});
  }
  return steps;
}

}  // namespace foretrain

#include "sim/program/lower/update/adafactor.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "sim/program/blocks/block_builder.h"
#include "sim/program/ir/precision.h"
#include "sim/program/lower/layout/bucket_state.h"
#include "sim/program/lower/layout/factored_moments.h"
#include "sim/program/lower/layout/sharding.h"
#include "sim/program/lower/transfers/transfer_steps.h"

namespace foretrain {
namespace {

// key.block of the steps of one bucket: a kind of instruction has at most one of each.
enum Place : int { kSums, kSize, kUpdate, kSumsOfShards, kSumsOfTp, kSizesOfShards, kSizesOfTp };

// The part of a bucket that a rank updates, and the numbers that its tensors need.
struct Share {
  ShardRange range;  // elements of the bucket; may be empty
  std::vector<MatrixPlace> tensors;
  std::int64_t elements() const { return range.end - range.begin; }
  std::int64_t rows() const { return RowMomentsOf(tensors); }
  std::int64_t cols() const { return ColMomentsOf(tensors); }
  // Sums of rows, then of columns, then the squares of each tensor's parameters.
  std::int64_t sums() const { return rows() + cols() + count(); }
  std::int64_t count() const { return std::ssize(tensors); }
};
Share ShareOf(const LowerContext& context, int bucket) {
  return {ShardOf(context.BucketAt(bucket)),
          context.layout.matrices[static_cast<std::size_t>(bucket)]};
}

std::string NameOf(const char* step, const Share& share) {
  std::string name = std::string(step) + "." + std::to_string(share.range.begin) + "." +
                     std::to_string(share.range.end);
  for (const MatrixPlace& t : share.tensors) {
    name += "." + std::to_string(t.offset) + ":" + std::to_string(t.rows) + "x" +
            std::to_string(t.cols);
    for (const ShardRange& own : {t.own_rows, t.own_cols}) {
      name += ":" + std::to_string(own.begin) + "-" + std::to_string(own.end);
    }
    name += std::string(t.decays ? "d" : "") + (t.counted ? "" : "n");
  }
  return name;
}

// Consecutive elements of a tensor: whole rows of what this rank holds, or a range of one row.
struct Part {
  std::int64_t tensor = 0;                            // number in the bucket
  std::int64_t first = 0;                             // element of the bucket
  std::int64_t row = 0, col = 0, rows = 0, cols = 0;  // in the whole tensor
  std::int64_t elements() const { return rows * cols; }
};

// A range of a matrix is at most three parts: the end of a row, rows, and the begin of a row.
std::vector<Part> PartsOf(const Share& share) {
  std::vector<Part> parts;
  for (std::int64_t i = 0; i < share.count(); ++i) {
    const MatrixPlace& tensor = share.tensors[static_cast<std::size_t>(i)];
    const std::int64_t width = tensor.own_cols.end - tensor.own_cols.begin;
    const std::int64_t held = width * (tensor.own_rows.end - tensor.own_rows.begin);
    std::int64_t at = std::max<std::int64_t>(share.range.begin - tensor.offset, 0);
    const std::int64_t end = std::min(share.range.end - tensor.offset, held);
    while (at < end) {
      const std::int64_t col = at % width;
      const bool whole_rows = col == 0 && end - at >= width;
      Part part{i, tensor.offset + at, tensor.own_rows.begin + at / width,
                tensor.own_cols.begin + col};
      part.rows = whole_rows ? (end - at) / width : 1;
      part.cols = whole_rows ? width : std::min(end - at, width - col);
      at += part.elements();
      parts.push_back(part);
    }
  }
  return parts;
}

TensorShape Numbers(std::int64_t count) {
  return {BytesIn(NumberFormat::kFp32, count), Category::kWorkspace, NumberFormat::kFp32};
}
TensorName Named(TensorKind kind, int bucket) { return {kind, 0, 0, bucket}; }

// Adds the slots of a step in the order of its uses, and views of parts of them. Slots that the
// plan or the share does not have are empty.
class StepBuilder {
 public:
  StepBuilder(const char* name, const Plan& plan, const Share& share)
      : b(name), plan_(plan), share_(share) {}

  std::int16_t Slot(const char* name, std::int64_t count, Category category,
                    NumberFormat format = NumberFormat::kFp32) {
    return b.SlotIn(format, name, count, category, SlotRole::kOther, next_++);
  }
  std::int16_t Parameters() {
    const bool masters = HasMasters(plan_);
    return Slot("param", share_.elements(),
                masters ? Category::kMasterWeights : Category::kParameters,
                masters ? NumberFormat::kFp32 : WeightFormat(plan_));
  }
  std::int16_t Gradients() {
    return Slot("grad", share_.elements(), Category::kGradients, SumFormat(plan_));
  }
  std::int16_t RowMoments() { return Slot("moment1", share_.rows(), Category::kOptimizerState); }
  std::int16_t ColMoments() { return Slot("moment2", share_.cols(), Category::kOptimizerState); }
  std::int16_t Norm() { return Slot("squared_norm", plan_.clip_norm > 0, Category::kWorkspace); }
  std::int16_t Sums() { return Slot("sums", share_.sums(), Category::kWorkspace); }
  std::int16_t OfTensors(const char* name) {
    return Slot(name, share_.count(), Category::kWorkspace);
  }
  void Zero(const std::string& name, std::int16_t slot, std::int64_t count) {
    b.Add(OpKind::kFill, OpClass::kMemoryBound, name, {Out(slot)}).shape = {.elements = count};
  }

  // Views of numbers of a tensor's rows, of its columns, or of its own. `in_sums`: in the slot of
  // the sums, where columns follow rows.
  std::int16_t Rows(const char* name, std::int16_t from, std::int64_t tensor, std::int64_t row,
                    std::int64_t count) {
    const MatrixPlace& of = At(tensor);
    return of.rows > 1 ? View(name, from, of.row_moments + row, count) : kNoSlot;
  }
  std::int16_t Cols(const char* name, std::int16_t from, std::int64_t tensor, std::int64_t col,
                    std::int64_t count, bool in_sums) {
    return View(name, from, (in_sums ? share_.rows() : 0) + At(tensor).col_moments + col, count);
  }
  std::int16_t Squares(std::int16_t sums, std::int64_t tensor) {
    return View("param_squares", sums, share_.rows() + share_.cols() + tensor, 1);
  }
  std::int16_t View(const char* name, std::int16_t of, std::int64_t first, std::int64_t count) {
    return b.View(name + suffix_, of, first, count);
  }
  // A part's elements in a slot that holds the share.
  std::int16_t Elements(const char* name, std::int16_t of, const Part& part) {
    return View(name, of, part.first - share_.range.begin, part.elements());
  }
  const MatrixPlace& At(std::int64_t tensor) const {
    return share_.tensors[static_cast<std::size_t>(tensor)];
  }
  // Numbers the op and its views.
  std::string Number(const char* name, std::int64_t number) {
    suffix_ = "." + std::string(name) + "." + std::to_string(number);
    return std::string(name) + "." + std::to_string(number);
  }

  BlockBuilder b;

 private:
  const Plan& plan_;
  const Share& share_;
  std::string suffix_;
  int next_ = 0;
};

Operand ReadAndWritten(std::int16_t slot) { return slot == kNoSlot ? In(slot) : InOut(slot); }

// Slots: parameters, gradients, squared norm, sums.
Block SumsBlock(const Plan& plan, const Share& share) {
  StepBuilder step("factor.sums", plan, share);
  const std::int16_t param = step.Parameters(), grad = step.Gradients(), norm = step.Norm();
  const std::int16_t sums = step.Sums();
  step.Zero("factor.sums.zero", sums, share.sums());
  std::int64_t number = 0;
  for (const Part& part : PartsOf(share)) {
    if (!step.At(part.tensor).counted) continue;
    const std::string name = step.Number("factor.sums", number++);
    Op& op = step.b.Add(
        OpKind::kFactorSums, OpClass::kMemoryBound, name,
        {In(step.Elements("param", param, part)), In(step.Elements("grad", grad, part)),
         ReadAndWritten(step.Rows("row_sums", sums, part.tensor, part.row, part.rows)),
         InOut(step.Cols("col_sums", sums, part.tensor, part.col, part.cols, /*in_sums=*/true)),
         InOut(step.Squares(sums, part.tensor)), In(norm)});
    op.Set(Attribute::kClipNorm, plan.clip_norm);
    op.shape = {.rows = part.rows, .cols = part.cols};
  }
  return step.b.Take();
}

// Slots: gradients, squared norm, sums, moments of rows and of columns, means, sizes.
Block SizeBlock(const Plan& plan, const Share& share) {
  StepBuilder step("factor.size", plan, share);
  const std::int16_t grad = step.Gradients(), norm = step.Norm(), sums = step.Sums();
  const std::int16_t rows = step.RowMoments(), cols = step.ColMoments();
  const std::int16_t means = step.OfTensors("means"), sizes = step.OfTensors("sizes");
  for (std::int64_t i = 0; i < share.count(); ++i) {
    const MatrixPlace& tensor = step.At(i);
    const std::string name = step.Number("factor.moments", i);
    Op& op = step.b.Add(OpKind::kFactorMoments, OpClass::kMemoryBound, name,
                        {In(step.Rows("row_sums", sums, i, 0, tensor.rows)),
                         In(step.Cols("col_sums", sums, i, 0, tensor.cols, /*in_sums=*/true)),
                         ReadAndWritten(step.Rows("moment1", rows, i, 0, tensor.rows)),
                         InOut(step.Cols("moment2", cols, i, 0, tensor.cols, /*in_sums=*/false)),
                         Out(step.View("row_mean", means, i, 1)), In(norm)});
    op.shape = {.rows = tensor.rows, .cols = tensor.cols};
  }
  step.Zero("factor.size.zero", sizes, share.count());
  std::int64_t number = 0;
  for (const Part& part : PartsOf(share)) {
    if (!step.At(part.tensor).counted) continue;
    const std::string name = step.Number("factor.size", number++);
    Op& op = step.b.Add(
        OpKind::kFactorSize, OpClass::kMemoryBound, name,
        {In(step.Elements("grad", grad, part)),
         In(step.Rows("moment1", rows, part.tensor, part.row, part.rows)),
         In(step.Cols("moment2", cols, part.tensor, part.col, part.cols, /*in_sums=*/false)),
         In(step.View("row_mean", means, part.tensor, 1)),
         InOut(step.View("update_squares", sizes, part.tensor, 1)), In(norm)});
    op.Set(Attribute::kClipNorm, plan.clip_norm);
    op.shape = {.rows = part.rows, .cols = part.cols};
  }
  return step.b.Take();
}

// Slots: parameters, gradients, squared norm, sums, moments of rows and of columns, means, sizes,
// weights of which the parameters are masters, moving average.
Block UpdateBlock(const Plan& plan, const Share& share) {
  StepBuilder step("adafactor", plan, share);
  const std::int16_t param = step.Parameters(), grad = step.Gradients(), norm = step.Norm();
  const std::int16_t sums = step.Sums(), rows = step.RowMoments(), cols = step.ColMoments();
  const std::int16_t means = step.OfTensors("means"), sizes = step.OfTensors("sizes");
  const std::int16_t weights = step.Slot("weights", HasMasters(plan) ? share.elements() : 0,
                                         Category::kParameters, WeightFormat(plan));
  const std::int16_t average = step.Slot("average", plan.average_decay > 0 ? share.elements() : 0,
                                         Category::kOptimizerState);
  std::int64_t number = 0;
  for (const Part& part : PartsOf(share)) {
    const MatrixPlace& tensor = step.At(part.tensor);
    const std::string name = step.Number("adafactor", number++);
    Op& op = step.b.Add(
        OpKind::kAdafactor, OpClass::kMemoryBound, name,
        {InOut(step.Elements("param", param, part)), In(step.Elements("grad", grad, part)),
         In(step.Rows("moment1", rows, part.tensor, part.row, part.rows)),
         In(step.Cols("moment2", cols, part.tensor, part.col, part.cols, /*in_sums=*/false)),
         In(step.View("row_mean", means, part.tensor, 1)), In(step.Squares(sums, part.tensor)),
         In(step.View("update_squares", sizes, part.tensor, 1)), In(norm),
         weights == kNoSlot ? In(kNoSlot) : Out(step.Elements("weights", weights, part))});
    op.Set(Attribute::kClipNorm, plan.clip_norm);
    op.shape = {.rows = part.rows,
                .cols = part.cols,
                .inner = tensor.rows * tensor.cols,
                .elements = part.elements(),
                .decayed = tensor.decays ? part.elements() : 0};
  }
  if (plan.average_decay > 0) {
    Op& op =
        step.b.Add(OpKind::kAverage, OpClass::kMemoryBound, "average", {In(param), InOut(average)});
    op.Set(Attribute::kAverageRate, 1 - plan.average_decay);
    op.shape = {.elements = share.elements()};
  }
  return step.b.Take();
}

// Adds uses in the order of slots, without those that would be empty.
class UseList {
 public:
  UseList(const LowerContext& context, int bucket, const Share& share)
      : context_(context), bucket_(bucket), share_(share) {}
  void Parameters() {
    if (share_.elements() > 0) all.push_back(UpdatedIn(context_, bucket_, share_.range));
  }
  void Gradients() {
    if (share_.elements() > 0) all.push_back(GradientsIn(context_, bucket_, share_.range));
  }
  void Norm() {
    if (context_.plan.clip_norm > 0) all.push_back(Uses(TensorKind::kNorm));
  }
  void Moments() {
    if (share_.rows() > 0) all.push_back(WholeState(&Bucket::moment1, bucket_));
    all.push_back(WholeState(&Bucket::moment2, bucket_));
  }
  std::vector<TensorUse> all;

 private:
  const LowerContext& context_;
  int bucket_;
  const Share& share_;
};

StepDescription Sums(const LowerContext& context, const InstructionKey& key) {
  Share share = ShareOf(context, key.part);
  UseList uses(context, key.part, share);
  uses.Parameters();
  uses.Gradients();
  uses.Norm();
  uses.all.push_back(Makes(Named(TensorKind::kFactorSums, key.part), Numbers(share.sums())));
  std::string name = NameOf("factor.sums", share);
  return {std::move(name),
          [&plan = context.plan, share = std::move(share)] { return SumsBlock(plan, share); },
          std::move(uses.all)};
}

// If the rank's shard is padding alone, no update follows, and the sums end here.
StepDescription Size(const LowerContext& context, const InstructionKey& key) {
  Share share = ShareOf(context, key.part);
  const bool updates = share.elements() > 0;
  UseList uses(context, key.part, share);
  uses.Gradients();
  uses.Norm();
  const TensorName sums = Named(TensorKind::kFactorSums, key.part);
  uses.all.push_back(updates ? Uses(sums) : Frees(sums, Numbers(share.sums())));
  uses.Moments();
  uses.all.push_back(updates
                         ? Makes(Named(TensorKind::kFactorMeans, key.part), Numbers(share.count()))
                         : Borrows(Numbers(share.count())));
  uses.all.push_back(Makes(Named(TensorKind::kFactorSizes, key.part), Numbers(share.count())));
  std::string name = NameOf("factor.size", share);
  return {std::move(name),
          [&plan = context.plan, share = std::move(share)] { return SizeBlock(plan, share); },
          std::move(uses.all)};
}

StepDescription Update(const LowerContext& context, const InstructionKey& key) {
  const Plan& plan = context.plan;
  Share share = ShareOf(context, key.part);
  UseList uses(context, key.part, share);
  uses.Parameters();
  uses.Gradients();
  uses.Norm();
  uses.all.push_back(Frees(Named(TensorKind::kFactorSums, key.part), Numbers(share.sums())));
  uses.Moments();
  for (const TensorKind kind : {TensorKind::kFactorMeans, TensorKind::kFactorSizes}) {
    uses.all.push_back(Frees(Named(kind, key.part), Numbers(share.count())));
  }
  if (HasMasters(plan)) uses.all.push_back(ParametersIn(context, key.part, share.range));
  if (plan.average_decay > 0) {
    TensorUse average = WholeState(&Bucket::average, key.part);
    average.bytes = BytesIn(NumberFormat::kFp32, share.elements());
    uses.all.push_back(average);
  }
  std::string name = NameOf("adafactor", share);
  return {std::move(name), [&plan, share = std::move(share)] { return UpdateBlock(plan, share); },
          std::move(uses.all)};
}

bool SumsOverTp(const LowerContext& context, int bucket) {
  const bool alone = context.BucketAt(bucket).experts && context.plan.ExpertsSpanTp();
  return context.plan.tp > 1 && !alone;
}

// Adds up what ranks counted: over the shards of the bucket, then over tensor-parallel ranks.
StepDescription Reduction(const LowerContext& context, const InstructionKey& key) {
  const Share share = ShareOf(context, key.part);
  const bool tp = key.block == kSumsOfTp || key.block == kSizesOfTp;
  const bool sizes = key.block == kSizesOfShards || key.block == kSizesOfTp;
  const std::int64_t count = sizes ? share.count() : share.sums();
  CollectiveSpec spec{OpKind::kAllReduce, sizes ? "reduce.factor_sizes" : "reduce.factor_sums",
                      tp ? Queue::kTp : Queue::kReduce,
                      tp ? GroupKind::kTp : ShardGroup(context.BucketAt(key.part)), count};
  if (tp) spec.op_class = OpClass::kTpComm;
  const TensorName name =
      Named(sizes ? TensorKind::kFactorSizes : TensorKind::kFactorSums, key.part);
  const bool last =
      key.block == kSizesOfTp || (key.block == kSizesOfShards && !SumsOverTp(context, key.part));
  const bool ends = last && share.elements() == 0;
  return Collective(spec, {ends ? Frees(name, Numbers(count)) : Uses(name)});
}

constexpr StepRule kSumsRule{Sums};
constexpr StepRule kSizeRule{Size};
constexpr StepRule kUpdateRule{Update};
constexpr StepRule kReductionRule{Reduction};

}  // namespace

Skeleton AdafactorSteps(const LowerContext& context, int bucket) {
  Skeleton steps;
  const auto add = [&](InstructionKind kind, Place place, const StepRule& rule) {
    steps.push_back({{kind, Pass::kUpdate, place, 0, bucket}, &rule});
  };
  const auto reduce = [&](Place over_shards, Place over_tp) {
    if (context.BucketAt(bucket).shards > 1) {
      add(InstructionKind::kScalarReduce, over_shards, kReductionRule);
    }
    if (SumsOverTp(context, bucket)) add(InstructionKind::kScalarReduce, over_tp, kReductionRule);
  };
  add(InstructionKind::kOptimizerStep, kSums, kSumsRule);
  reduce(kSumsOfShards, kSumsOfTp);
  add(InstructionKind::kOptimizerStep, kSize, kSizeRule);
  reduce(kSizesOfShards, kSizesOfTp);
  const ShardRange shard = ShardOf(context.BucketAt(bucket));
  if (shard.end > shard.begin) add(InstructionKind::kOptimizerStep, kUpdate, kUpdateRule);
  return steps;
}

}  // namespace foretrain

#include "sim/program/lower/update/adafactor.h"

#include <string>
#include <utility>
#include <vector>

#include "sim/program/blocks/block_builder.h"
#include "sim/program/ir/precision.h"
#include "sim/program/lower/layout/bucket_layout.h"
#include "sim/program/lower/layout/bucket_state.h"
#include "sim/program/lower/layout/factored_moments.h"
#include "sim/program/lower/transfers/transfer_blocks.h"

namespace foretrain {
namespace {

// Elements of a bucket that hold parameters, and the moments of its rows and of its columns.
struct Sizes {
  std::int64_t elements = 0, row_moments = 0, col_moments = 0;
};

// Slots: parameters, gradients, moments of rows and of columns, squared norm, weights of which the
// parameters are masters, moving average. Those that the plan has not are empty.
Block UpdateBlock(const Plan& plan, const Sizes& sizes, const std::vector<MatrixPlace>& tensors) {
  BlockBuilder b("adafactor");
  const bool masters = HasMasters(plan);
  const NumberFormat exact = NumberFormat::kFp32;
  const auto slot = [&](const char* name, std::int64_t count, Category category, int index,
                        NumberFormat format) {
    return b.SlotIn(format, name, count, category, SlotRole::kOther, index);
  };
  const std::int16_t param =
      slot("param", sizes.elements, masters ? Category::kMasterWeights : Category::kParameters, 0,
           masters ? exact : WeightFormat(plan));
  const std::int16_t grad = slot("grad", sizes.elements, Category::kGradients, 1, SumFormat(plan));
  const std::int16_t rows = slot("moment1", sizes.row_moments, Category::kOptimizerState, 2, exact);
  const std::int16_t cols = slot("moment2", sizes.col_moments, Category::kOptimizerState, 3, exact);
  const std::int16_t norm =
      slot("squared_norm", plan.clip_norm > 0, Category::kWorkspace, 4, exact);
  const std::int16_t weights =
      slot("weights", masters ? sizes.elements : 0, Category::kParameters, 5, WeightFormat(plan));
  const std::int16_t average = slot("average", plan.average_decay > 0 ? sizes.elements : 0,
                                    Category::kOptimizerState, 6, exact);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const MatrixPlace& tensor = tensors[i];
    const std::int64_t elements = tensor.rows * tensor.cols;
    const std::string suffix = "." + std::to_string(i);
    const auto view = [&](const char* name, std::int16_t of, std::int64_t first,
                          std::int64_t count) { return b.View(name + suffix, of, first, count); };
    const bool is_matrix = tensor.rows > 1;
    const Operand row_moments =
        is_matrix ? InOut(view("moment1", rows, tensor.row_moments, tensor.rows)) : In(kNoSlot);
    const Operand copy =
        weights == kNoSlot ? In(kNoSlot) : Out(view("weights", weights, tensor.offset, elements));
    Op& op = b.Add(OpKind::kAdafactor, OpClass::kMemoryBound, "adafactor" + suffix,
                   {InOut(view("param", param, tensor.offset, elements)),
                    In(view("grad", grad, tensor.offset, elements)), row_moments,
                    InOut(view("moment2", cols, tensor.col_moments, tensor.cols)), In(norm), copy});
    op.Set(Attribute::kClipNorm, plan.clip_norm);
    op.shape = {.rows = tensor.rows,
                .cols = tensor.cols,
                .elements = elements,
                .decayed = tensor.decays ? elements : 0};
  }
  if (plan.average_decay > 0) {
    Op& op = b.Add(OpKind::kAverage, OpClass::kMemoryBound, "average", {In(param), InOut(average)});
    op.Set(Attribute::kAverageRate, 1 - plan.average_decay);
    op.shape = {.elements = sizes.elements};
  }
  return b.Take();
}

// Padding lies behind the tensors and stays as it is.
StepDescription Update(const LowerContext& context, const InstructionKey& key) {
  const Plan& plan = context.plan;
  const auto number = static_cast<std::size_t>(key.part);
  const std::vector<MatrixPlace>& tensors = context.layout.matrices[number];
  const ShardRange all = ShardOf(context.BucketAt(key.part));
  const Sizes sizes{all.end - all.begin, RowMomentsOf(tensors), ColMomentsOf(tensors)};
  std::string name = "adafactor." + std::to_string(sizes.elements);
  for (const MatrixPlace& tensor : tensors) {
    name += "." + std::to_string(tensor.offset) + ":" + std::to_string(tensor.rows) + "x" +
            std::to_string(tensor.cols) + (tensor.decays ? "d" : "");
  }
  std::vector<TensorUse> uses = {UpdatedIn(context, key.part, all),
                                 GradientsIn(context, key.part, all)};
  if (sizes.row_moments > 0) uses.push_back(WholeState(&Bucket::moment1, key.part));
  uses.push_back(WholeState(&Bucket::moment2, key.part));
  if (plan.clip_norm > 0) uses.push_back(Uses(TensorKind::kNorm));
  if (HasMasters(plan)) uses.push_back(ParametersIn(context, key.part, all));
  if (plan.average_decay > 0) {
    TensorUse average = WholeState(&Bucket::average, key.part);
    average.bytes = BytesIn(NumberFormat::kFp32, sizes.elements);
    uses.push_back(average);
  }
  return {std::move(name), [&plan, sizes, tensors] { return UpdateBlock(plan, sizes, tensors); },
          std::move(uses)};
}

constexpr StepRule kUpdateRule{Update};

}  // namespace

SkeletonStep AdafactorStep(const LowerContext& context, int bucket, int micro_batch) {
  FT_CHECK(context.BucketAt(bucket).shards == 1);
  return {{InstructionKind::kOptimizerStep, Pass::kUpdate, 0, micro_batch, bucket}, &kUpdateRule};
}

}  // namespace foretrain

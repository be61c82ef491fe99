#include "sim/program/lower/layout/factored_moments.h"

#include <cstddef>

#include "sim/program/lower/layout/layout_sizes.h"

namespace foretrain {

// Tensors follow one another, so the last one's moments end all.
std::int64_t RowMomentsOf(const std::vector<MatrixPlace>& tensors) {
  if (tensors.empty()) return 0;
  return tensors.back().row_moments + (tensors.back().rows > 1 ? tensors.back().rows : 0);
}

std::int64_t ColMomentsOf(const std::vector<MatrixPlace>& tensors) {
  return tensors.empty() ? 0 : tensors.back().col_moments + tensors.back().cols;
}

// Experts are counted on all ranks that they are dealt to, a shared table of tokens once.
std::int64_t FactoredMoments(const ModelSpec& model, const Plan& plan) {
  if (plan.optimizer != OptimizerKind::kAdafactor) return 0;
  const ParameterSizes sizes = SizesOf(model, plan);
  const auto of = [&](BlockKind kind, std::int64_t blocks) {
    std::int64_t moments = 0;
    for (const ParameterSize& size : sizes.of_kind[static_cast<std::size_t>(kind)]) {
      if (kind == BlockKind::kHead && size.token_table) continue;
      for (const MatrixSplit& split : size.matrices) {
        const std::int64_t rows = split.place.rows > 1 ? split.place.rows : 0;
        moments += (rows + split.place.cols) * (size.experts ? plan.ep : 1);
      }
    }
    return blocks * moments;
  };
  std::int64_t sum = of(BlockKind::kEmbedding, 1) + of(BlockKind::kHead, 1);
  for (const auto& [kind, layers] : LayerCounts(model)) sum += of(kind, layers);
  return sum;
}

}  // namespace foretrain

#include "sim/validate/stage_layers.h"

#include <numeric>

namespace foretrain {

std::vector<int> StageLayers(std::int64_t layers, int stages, bool end_blocks_count) {
  if (stages <= 1 || layers % stages == 0 || !end_blocks_count || layers < stages) return {};
  const std::int64_t blocks = layers + 2;
  std::vector<int> out(static_cast<std::size_t>(stages), static_cast<int>(blocks / stages));
  for (std::int64_t i = 0; i < blocks % stages; ++i) ++out[static_cast<std::size_t>(1 + i)];
  for (int* end : {&out.front(), &out.back()}) *end -= 1;
  for (int& count : out) {
    if (count < 1) return {};
  }
  return out;
}

}  // namespace foretrain

// Where a step's tokens come from. Leaves out files: runtime/data/token_data.h.
#pragma once

#include <cstdint>
#include <span>

#include "base/result.h"

namespace foretrain {

// One micro-batch of one data-parallel rank, of which context-parallel rank `cp` has the tokens of
// its chunks (sim/program/blocks/context_parallel.h).
struct BatchRequest {
  std::int64_t step = 0;
  int dp = 0;
  int micro_batch = 0;
  int cp = 0;
};

class BatchSource {
 public:
  virtual ~BatchSource() = default;
  // Fills `ids` and `targets` (each empty or micro_batch * LocalSequence() long, sample by sample):
  // a target is the token after its id. The same request gives the same tokens. Safe from any
  // thread.
  virtual Result<void> Fill(const BatchRequest& request, std::span<std::int32_t> ids,
                            std::span<std::int32_t> targets) = 0;
};

}  // namespace foretrain

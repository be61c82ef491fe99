// Timelines made by hand for tests of the view, in nanoseconds, small enough for the arithmetic in
// the comments.
#pragma once

#include <cstdint>
#include <optional>

#include "traces/metrics/metrics.h"
#include "ui/run_view.h"
#include "ui/view_model/runs/compare_model.h"

namespace foretrain {

struct Place {
  int rank = 0;
  std::int32_t step = 0;
  int micro_batch = 0;
  int block = 1;
  int op = 0;
  Pass pass = Pass::kForward;
};

OpId IdOf(const Place& place);

// A span of a block's op on the compute queue.
Span ComputeSpan(const Place& place, std::int64_t start_ns, std::int64_t end_ns,
                 OpClass op_class = OpClass::kGemm);

// A send to the next stage.
Span SendSpan(const Place& place, std::int64_t start_ns, std::int64_t end_ns);

// A run of these spans with derived step windows.
RunView RunOfSpans(std::vector<Span> spans);

// Two ranks, one step of two micro-batches, forward alone, one op "mlp" each; measured 1,000 ns
// later in the run's own time. Relative to the step:
//
//   rank 0  predicted  mb 0 [0, 100)  mb 1 [100, 200)
//           measured   mb 0 [0, 100)  mb 1 [100, 240)   and a send [100, 150) without a counterpart
//   rank 1  predicted  mb 0 [100, 200)  mb 1 [200, 300)
//           measured   mb 0 [110, 200)  mb 1 [240, 350)
CompareInput TwoRanks();

// Facts and model of `input` in one call.
ui::CompareModel ModelOf(const CompareInput& input, const ui::CompareOptions& options = {});
ui::CompareModel ModelOf(CompareInput&&, const ui::CompareOptions& = {}) = delete;  // borrows it

}  // namespace foretrain

// Runs on a virtual clock in which the test chooses each op's time.
#pragma once

#include <cstdint>
#include <memory>

#include "runtime/executor/executor.h"
#include "sim/program/ir/program.h"
#include "tests/runtime/training.h"
#include "traces/timeline.h"

namespace foretrain {

constexpr std::int64_t kMs = 1'000'000;

struct Forced {
  std::shared_ptr<const Program> program;
  Timeline timeline;
  std::int64_t step_ns = 0;     // window of the last step
  std::int64_t compute_ns = 0;  // of one step

  std::int64_t BusyIn(Queue queue, int step) const {
    std::int64_t sum = 0;
    for (const Span& span : timeline.spans) {
      if (span.queue == queue && span.step == step) sum += span.end_ns - span.start_ns;
    }
    return sum;
  }
};

// Every compute op takes `compute` ns, every CPU op `cpu` ns; copies take the times given by
// `caps`.
Forced RunForced(const Plan& plan, std::int64_t compute, std::int64_t cpu, const CopyCaps& caps,
                 int steps, const ModelSpec& model = TinyGpt());

}  // namespace foretrain

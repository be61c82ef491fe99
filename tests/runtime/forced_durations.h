// Runs in which each op takes a time that the test chooses, on a virtual clock.
#pragma once

#include <cstdint>
#include <memory>

#include "runtime/executor.h"
#include "sim/program/program.h"
#include "traces/timeline.h"
#include "training.h"

namespace foretrain {

constexpr std::int64_t kMs = 1'000'000;

struct Forced {
  std::shared_ptr<const Program> program;
  Timeline timeline;
  std::int64_t step_ns = 0;     // the last one's window
  std::int64_t compute_ns = 0;  // of one step

  std::int64_t BusyIn(Queue queue, int step) const {
    std::int64_t sum = 0;
    for (const Span& span : timeline.spans) {
      if (span.queue == queue && span.step == step) sum += span.end_ns - span.start_ns;
    }
    return sum;
  }
};

// Every compute op takes `compute` ns, every op of the host's processors `cpu`; copies take what
// `caps` say.
Forced RunForced(const Plan& plan, std::int64_t compute, std::int64_t cpu, const CopyCaps& caps,
                 int steps, const ModelSpec& model = TinyGpt());

}  // namespace foretrain

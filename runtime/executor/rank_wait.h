// RankRun::WaitHere: waiting within a rank. A template, so it needs a header.
#pragma once

#include "runtime/executor/rank_run.h"

namespace foretrain {

template <class Ready>
Result<void> RankRun::WaitHere(Gate& gate, Ready ready) {
  // A quarter longer than peers wait for each other: if a peer is late, its message comes first.
  const std::int64_t limit_ns = shared_.options.timeout_ns + shared_.options.timeout_ns / 4;
  std::int64_t deadline_ns = shared_.clock.Now() + limit_ns;
  for (;;) {
    const WaitEnd end = gate.Wait(ready, deadline_ns);
    if (end == WaitEnd::kReady) return {};
    if (end == WaitEnd::kAborted) return tl::unexpected<Error>(shared_.control.AbortedError());
    const std::int64_t quiet_until = activity_ns_.load(std::memory_order_relaxed) + limit_ns;
    if (quiet_until <= deadline_ns) return tl::unexpected<Error>(Stuck());
    deadline_ns = quiet_until;
  }
}

}  // namespace foretrain

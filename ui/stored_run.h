// A stored run as the compare view takes it. Leaves out which runs are chosen.
#pragma once

#include <optional>

#include "traces/metrics/metrics.h"
#include "traces/run.h"
#include "ui/run_view.h"

namespace foretrain {

// `run`, loaded with its timeline, with step windows derived where the recorder left none.
//
//   metrics  tokens, flops and pipelines of its plan; nothing: taken from the specs stored with the
//            run as far as they can be read, without a peak rate. Warm-up steps: a forecast's last
//            step counts, a measurement's first does not where there are more.
//
// Emulation is `"emulated": true` in RunSetup::details_json. Specs that cannot be read leave their
// figures out. O(n) in spans and samples.
RunView RunViewOf(StoredRun run, const std::optional<MetricOptions>& metrics = {});

}  // namespace foretrain

// A stored run as the compare view takes it. Leaves out which runs are chosen.
#pragma once

#include <optional>

#include "traces/metrics/metrics.h"
#include "traces/run.h"
#include "ui/run_view.h"

namespace foretrain {

// Makes a view of `run`, which was loaded with its timeline. Step windows that the recorder left
// out are derived.
//
//   metrics  tokens, FLOPs and pipelines of the run's plan. If absent, they come from the specs
//            stored with the run as far as these can be read, without a peak rate.
//
// The default warm-up: a forecast's last step counts; a measurement's first step does not if
// there are more. Emulation is `"emulated": true` in RunSetup::details_json. O(n) in spans and
// samples.
RunView RunViewOf(StoredRun run, const std::optional<MetricOptions>& metrics = {});

}  // namespace foretrain

// Which ranks of a plan communicate with one another, queue by queue, as traces/metrics/skew.h asks.
// Leaves out what they exchange.
#pragma once

#include "sim/spec/plan.h"
#include "traces/metrics/skew.h"

namespace foretrain {

// Of tensor, context and expert parallelism, data parallelism and the pipeline. Where one queue
// serves groups of several kinds (HSDP, and DualPipe's stages on two ranks) its groups stay unknown.
// `plan` is valid. O(ranks times group).
CommunicationGroups CommunicationGroupsOf(const Plan& plan);

}  // namespace foretrain

// Random pipeline schedules that work, for tests of everything that takes one.
#pragma once

#include <random>

#include "sim/config/schedule/schedule_draft.h"

namespace foretrain {

// A schedule of up to `max_ranks` ranks and `max_micro_batches` micro-batches in one of the
// placements of stages. Each rank issues, again and again, one of the passes that could run next.
// Whole and split backwards are mixed.
ScheduleDraft RandomSchedule(std::mt19937& random, int max_ranks, int max_micro_batches);

}  // namespace foretrain

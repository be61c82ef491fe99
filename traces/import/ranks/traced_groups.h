// The process groups of a run and their calls, from the records of its ranks.
#pragma once

#include <vector>

#include "traces/import/op_table.h"
#include "traces/import/rank_timeline.h"
#include "traces/import/raw_events.h"
#include "traces/import/traced_communication.h"

namespace foretrain::trace_import {

// The groups of the ranks and their calls, with the times of JoinRanks. Groups of several ranks
// with one list of members, or one description if none is listed, are one.
TracedCommunication CommunicationOf(const std::vector<RankEvents>& ranks, const OpTable& table,
                                    const std::vector<RankTimeline>& timelines);

}  // namespace foretrain::trace_import

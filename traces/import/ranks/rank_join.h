// Makes one run of several ranks' traces: their numbers, their clocks and their waits for each
// other.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "traces/import/rank_timeline.h"
#include "traces/import/raw_events.h"
#include "traces/metrics/bubble.h"

namespace foretrain::trace_import {

inline constexpr std::int64_t kMaxImportedRanks = 1 << 15;

// "[0, 4]"; empty if a part of the list is no rank, as where it was cut short with "...".
std::vector<int> RanksIn(std::string_view list);

// Ranks as stated by the traces, if all state one and no two agree; else the order of the files,
// which a note says. Errors: kInvalidArgument, a rank that is too large.
Result<std::vector<int>> NumberRanks(const std::vector<RankEvents>& ranks,
                                     std::vector<std::string>& notes);

// Offsets that move the first event of all ranks to 0. Ranks on one clock keep their distances; if
// the clocks differ, each rank starts at its own first event, which a note says.
std::vector<std::int64_t> OffsetsOf(const std::vector<RankEvents>& ranks,
                                    std::vector<std::string>& notes);

// The groups of pipeline parallelism whose ranks the traces list in full.
std::vector<Pipeline> PipelinesOfGroups(const std::vector<RankEvents>& ranks, const OpTable& table);

// Aligns the ranks' clocks by their communication and splits its waits off (collectives.h). Notes
// say how far clocks were moved and how many calls were matched. Without a match nothing changes.
//
//   numbers    the rank of each timeline
//   timelines  lose their calls
//
// Returns whether all communication was matched: what is left of its spans moves bytes.
bool JoinRanks(const std::vector<int>& numbers, std::vector<RankTimeline>& timelines,
               std::vector<std::string>& notes);

// Whether the details of a run say that all its communication was matched. False if they are
// damaged.
bool IsAllMatched(const std::string& details_json);

}  // namespace foretrain::trace_import

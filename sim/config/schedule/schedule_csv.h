// Reads and writes pipeline schedules in the form of PyTorch's pipelining [1]: a line for each
// rank, cells separated by commas, an action a cell.
//
//   0F0,0F1,0B0,0B1        rank 0 runs stage 0
//   1F0,1B0,1F1,1B1        rank 1 runs stage 1
//
// A cell is STAGE ACTION MICROBATCH: F forward, B backward, I and W its halves for inputs and
// weights. (1F2;0B1)OVERLAP_F_B runs two as one. Empty cells are idle and have no meaning here: a
// rank starts an action as soon as its inputs are there.
//
// [1] torch/distributed/pipelining/schedules.py, _PipelineSchedule._load_csv
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "sim/config/schedule/schedule_draft.h"

namespace foretrain {

inline constexpr std::size_t kMaxScheduleBytes = std::size_t{16} << 20;

// Parses a schedule. Actions of communication (SEND_F, RECV_F, SEND_B, RECV_B, UNSHARD, RESHARD,
// REDUCE_GRAD) are counted and left out, because foretrain derives them. Lines may end in CRLF, and
// cells may stand in double quotes. Empty lines at the end are skipped.
//
//   file  source of `text`, for messages
//
// Errors: kCorruptInput, naming file, line and cell: a cell that is no action, a number above the
// bounds of schedule_draft.h, no action at all, or more ranks, actions or bytes than allowed.
// Whether the schedule works is not checked. O(bytes); safe from any thread.
Result<ScheduleDraft> ParseSchedule(std::string_view text, std::string_view file);

// The same from one text a rank, as plan files hold it. `file` names their source.
Result<ScheduleDraft> ParseScheduleRows(const std::vector<std::string>& rows,
                                        std::string_view file);

// One line a rank without its end, and all of them with. Reads back to an equal draft.
std::vector<std::string> RowsOf(const ScheduleDraft& draft);
std::string ToCsv(const ScheduleDraft& draft);

}  // namespace foretrain

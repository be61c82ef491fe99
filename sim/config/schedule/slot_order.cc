#include "sim/config/schedule/slot_order.h"

#include <fmt/format.h>

#include <utility>

#include "base/hash.h"
#include "sim/config/rules/refuse.h"
#include "sim/config/schedule/check_schedule.h"
#include "sim/config/schedule/placement.h"
#include "sim/config/schedule/schedule_csv.h"

namespace foretrain {

Result<SlotOrder> SlotOrder::Make(const ScheduleDraft& draft, std::string_view file) {
  const ScheduleReport report = CheckSchedule(draft);
  if (!report.findings.empty()) {
    const std::size_t more = report.finding_count - 1;
    const ScheduleFinding& first = report.findings.front();
    return Refuse("{}{}: {}{}", file.empty() ? "" : fmt::format("{}: ", file), Name(first.fault),
                  first.text,
                  more == 0 ? "" : fmt::format(" ({} more; `schedule check` lists them)", more));
  }
  auto data = std::make_shared<Data>();
  data->shape = report.shape;
  data->micro_batches = report.micro_batches;
  data->chunks = report.chunks;
  data->draft = draft;
  const Placement placement(report.shape, static_cast<int>(draft.ranks.size()), report.chunks);
  StableHash hash;
  for (std::size_t r = 0; r < draft.ranks.size(); ++r) {
    std::vector<Slot>& slots = data->slots.emplace_back();
    slots.reserve(draft.ranks[r].size());
    hash.Add(draft.ranks[r].size());
    for (const ScheduleAction& action : draft.ranks[r]) {
      slots.push_back({action.pass, placement.ChunkOf(static_cast<int>(r), action.stage),
                       action.micro_batch, action.paired});
      data->splits |= action.pass == Pass::kBackwardInput;
      data->pairs |= action.paired;
      hash.Add(action.pass).Add(action.stage).Add(action.micro_batch).Add(action.paired);
    }
  }
  data->hash = hash.Value();
  data->file = file.empty() ? fmt::format("schedule-{}.csv", HexText(data->hash).substr(0, 8))
                            : std::string(file);
  SlotOrder order;
  order.data_ = std::move(data);
  return order;
}

Result<SlotOrder> SlotOrder::FromCsv(std::string_view text, std::string_view file) {
  FT_ASSIGN(const ScheduleDraft draft, ParseSchedule(text, file));
  return Make(draft, file);
}

bool SlotOrder::operator==(const SlotOrder& other) const {
  if (data_ == other.data_) return true;
  if (empty() || other.empty()) return false;
  return data_->hash == other.data_->hash && data_->draft.ranks == other.data_->draft.ranks;
}

}  // namespace foretrain

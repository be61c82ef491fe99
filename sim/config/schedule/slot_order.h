// The order of all passes of a pipeline step as a plan holds it, if its schedule is custom.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "sim/config/schedule/schedule_draft.h"
#include "sim/config/schedule/slot.h"

namespace foretrain {

// How a schedule places the stages of a model on pipeline ranks (placement.h).
enum class StageShape : std::uint8_t { kLine, kRounds, kV, kBothWays };

// An order that works: it exists only if CheckSchedule finds nothing wrong with it. Immutable.
// Copies are cheap: they share the slots.
class SlotOrder {
 public:
  SlotOrder() = default;  // none

  // `file` names the source in messages and command lines; empty: unknown. Errors:
  // kInvalidArgument, the first finding of CheckSchedule.
  static Result<SlotOrder> Make(const ScheduleDraft& draft, std::string_view file);
  // Parses and checks. Errors: those of ParseSchedule and Make.
  static Result<SlotOrder> FromCsv(std::string_view text, std::string_view file);

  bool empty() const { return data_ == nullptr; }

  // All below require an order that is not empty.
  StageShape shape() const { return data_->shape; }
  int ranks() const { return static_cast<int>(data_->slots.size()); }
  int micro_batches() const { return data_->micro_batches; }
  int chunks() const { return data_->chunks; }
  bool splits() const { return data_->splits; }  // a backward has two slots, input gradients first
  bool pairs() const { return data_->pairs; }    // slots run in pairs
  const std::vector<Slot>& SlotsOf(int rank) const {
    return data_->slots[static_cast<std::size_t>(rank)];
  }
  const ScheduleDraft& draft() const { return data_->draft; }
  std::uint64_t hash() const { return data_->hash; }
  // File that it was read from. If that is unknown, a name that tells it from others:
  // "schedule-1a2b3c4d.csv".
  const std::string& file() const { return data_->file; }

  // Whether both have the same slots; the files do not count.
  bool operator==(const SlotOrder& other) const;

 private:
  struct Data {
    StageShape shape = StageShape::kLine;
    int micro_batches = 1;
    int chunks = 1;
    bool splits = false;
    bool pairs = false;
    std::vector<std::vector<Slot>> slots;  // [rank]
    ScheduleDraft draft;
    std::uint64_t hash = 0;
    std::string file;
  };
  std::shared_ptr<const Data> data_;  // shared by all copies of the plan
};

}  // namespace foretrain

// What happens at one moment of a step: what runs on each queue of a rank and comes next, and which
// tensors are live, by category.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ui/view_model/panels/memory_model.h"
#include "ui/view_model/playback/playback.h"
#include "ui/view_model/runs/compare_model.h"

namespace foretrain::ui {

// One queue at a moment. Indices into Timeline::spans; nullopt: there is none.
struct QueueMoment {
  std::string queue{};                   // "compute", "tp"
  std::optional<std::uint32_t> runs{};   // covers the moment, or starts at it
  std::optional<std::uint32_t> ended{};  // ends at it
  std::optional<std::uint32_t> next{};   // the first that starts later
  bool starts = false;                   // `runs` starts at the moment
  std::size_t to_go = 0;                 // ops of the step that start later
};

// The queues and the memory of one lane's rank, for any moment of the chosen step.
class RankMoments {
 public:
  RankMoments() = default;
  // The model must outlive this. O(n log n) in the spans of the rank.
  RankMoments(const CompareModel& model, Side side, int rank);

  // One entry for each queue with spans; one more for each further track of spans that overlap.
  // O(queues log spans).
  std::vector<QueueMoment> QueuesAt(const CompareModel& model, double displayed_ns) const;

  // Live bytes at a moment and just before it.
  struct Memory {
    MemoryLevel now{};
    MemoryLevel before{};
  };
  // nullopt if the run has no samples of the rank.
  std::optional<Memory> MemoryAt(const CompareModel& model, double displayed_ns) const;

  Side side() const { return side_; }
  Space space() const { return memory_.space; }

 private:
  Side side_ = Side::kPredicted;
  std::vector<Row> rows_;
  MemoryPanel memory_;
};

// The texts of a moment: a row for each queue ("compute", "mlp.up, layer 5, forward mb 3", "1.2 ms
// ago", "0.3 ms left", next op, ops to go), and for each category that is or was live.
struct QueueText {
  std::string queue, runs, since, left, next, to_go;
  bool starts = false;  // the op starts now
  bool ends = false;    // `runs` names the op that ends now
};
std::vector<QueueText> TextsOf(const CompareModel& model, const RankMoments& rank,
                               const std::vector<QueueMoment>& queues, double displayed_ns);

struct CategoryText {
  std::string name, bytes, change;  // change: by the op that starts or ends now; may be empty
};
// Largest first; the last row is their sum.
std::vector<CategoryText> TextsOf(const RankMoments::Memory& memory);

// "mlp.up, layer 5, forward mb 3": op, instruction and pass of a span.
std::string NameOfSpan(const RunView& run, const Span& span);

}  // namespace foretrain::ui

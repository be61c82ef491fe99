// A stored run that is too long to be read whole, as the desktop takes it: sums of all spans, and
// the spans of the stretches that are looked at. Leaves out who looks (ui/view_model/long_runs.h).
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "app/stored_runs.h"
#include "traces/store.h"
#include "ui/run_view.h"

namespace foretrain {

// Two runs of together more spans than this are read in stretches.
inline constexpr std::int64_t kMostWholeSpans = 500'000;

class LongRun {
 public:
  // `view`: of the run without spans, with its sums.
  LongRun(RunId id, RunView view) : id_(id), view_(std::move(view)) {}

  // The run with the spans and memory samples of `stretches`, which are sorted and do not touch.
  // Stretches that were read before are kept, kMostKept of them. Errors: those of LoadRun.
  Result<RunView> With(const StoreReader& reader, const std::vector<Stretch>& stretches);

 private:
  static constexpr std::size_t kMostKept = 6;

  struct Part {
    Stretch stretch{};
    std::vector<Span> spans{};
    std::vector<MemorySample> memory{};
  };

  Result<const Part*> PartOf(const StoreReader& reader, const Stretch& stretch);

  RunId id_;
  RunView view_;
  std::vector<Part> parts_;  // the newest last
};

}  // namespace foretrain

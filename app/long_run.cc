#include "app/long_run.h"

#include <algorithm>

namespace foretrain {

Result<const LongRun::Part*> LongRun::PartOf(const StoreReader& reader, const Stretch& stretch) {
  const auto known = std::find_if(parts_.begin(), parts_.end(),
                                  [&](const Part& part) { return part.stretch == stretch; });
  if (known != parts_.end()) {
    std::rotate(known, known + 1, parts_.end());
    return &parts_.back();
  }
  FT_ASSIGN(StoredRun run,
            reader.LoadRun(id_, {.window_ns = std::pair(stretch.start_ns, stretch.end_ns),
                                 .sums = view_.sums.get()}));
  // What was reserved for whole batches is given back.
  run.timeline.spans.shrink_to_fit();
  run.timeline.memory.shrink_to_fit();
  if (parts_.size() == kMostKept) parts_.erase(parts_.begin());
  parts_.push_back({stretch, std::move(run.timeline.spans), std::move(run.timeline.memory)});
  return &parts_.back();
}

Result<RunView> LongRun::With(const StoreReader& reader, const std::vector<Stretch>& stretches) {
  RunView view = view_;
  view.loaded = stretches;
  for (std::size_t i = 0; i < stretches.size(); ++i) {
    FT_ASSIGN(const Part* const part, PartOf(reader, stretches[i]));
    const std::vector<MemorySample>& memory = part->memory;
    view.timeline.memory.insert(view.timeline.memory.end(), memory.begin(), memory.end());
    for (const Span& span : part->spans) {
      // One that reaches from stretch to stretch is there already.
      const bool twice = i > 0 && span.start_ns < stretches[i - 1].end_ns;
      if (!twice) view.timeline.spans.push_back(span);
    }
  }
  SortTimeline(view.timeline);
  return view;
}

}  // namespace foretrain

#include "ui/view_model/playback/moment.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "base/units.h"
#include "ui/view_model/timeline/hover.h"
#include "ui/view_model/timeline/ticks.h"

namespace foretrain::ui {
namespace {

constexpr double kHalfNs = 0.5;  // times of spans are whole nanoseconds

// The state of one track at a moment of the run's own time.
QueueMoment MomentOf(const Track& track, double own_ns, double step_end_ns) {
  QueueMoment out;
  // The first span that ends at the moment or later.
  std::size_t i = track.FirstEndingAfter(own_ns - kHalfNs);
  for (; i < track.size(); ++i) {
    const Span& span = track.SpanAt(i);
    const auto start = static_cast<double>(span.start_ns), end = static_cast<double>(span.end_ns);
    if (start > own_ns) break;
    if (end <= own_ns) {
      out.ended = track.IndexAt(i);
      continue;
    }
    out.runs = track.IndexAt(i);
    out.starts = start >= own_ns - kHalfNs;
    ++i;
    break;
  }
  if (i < track.size() && static_cast<double>(track.SpanAt(i).start_ns) < step_end_ns) {
    out.next = track.IndexAt(i);
    out.to_go = std::max(track.FirstEndingAfter(step_end_ns), i + 1) - i;
  }
  return out;
}

std::string Time(double ns) { return FormatSeconds(ns / kNsPerSecond); }

}  // namespace

RankMoments::RankMoments(const CompareModel& model, Side side, int rank) : side_(side) {
  const SideModel& of = model.Of(side);
  if (!of.IsPresent()) return;
  const int own = model.RankOn(side, rank);
  std::int64_t left_out = 0;
  rows_ = RowsOf(*of.run, own, LaneRows::kQueues, QueuesOf(*of.run, own), left_out);
  memory_ = MakeMemoryPanel(model, rank);
}

std::vector<QueueMoment> RankMoments::QueuesAt(const CompareModel& model,
                                               double displayed_ns) const {
  const SideModel& side = model.Of(side_);
  std::vector<QueueMoment> queues;
  for (const Row& row : rows_) {
    for (const Track& track : row.tracks) {
      if (track.size() == 0) continue;
      queues.push_back(
          MomentOf(track, side.Own(displayed_ns), static_cast<double>(side.step_end_ns)));
      queues.back().queue = row.name;
    }
  }
  return queues;
}

std::optional<RankMoments::Memory> RankMoments::MemoryAt(const CompareModel& model,
                                                         double displayed_ns) const {
  const MemoryCurve& curve = memory_.curves[Index(side_)];
  if (curve.empty()) return std::nullopt;
  const double own_ns = model.Of(side_).Own(displayed_ns);
  return Memory{curve.At(own_ns), curve.At(own_ns - 1)};
}

std::string NameOfSpan(const RunView& run, const Span& span) {
  std::string name = OpTitle(run, span.op);
  for (const std::string& part :
       {InstructionLabel(run, span.op), SlotLabel(span.op, /*wide=*/true)}) {
    if (!part.empty() && name.find(part) == std::string::npos) name += ", " + part;
  }
  return name;
}

std::vector<QueueText> TextsOf(const CompareModel& model, const RankMoments& rank,
                               const std::vector<QueueMoment>& queues, double displayed_ns) {
  const SideModel& side = model.Of(rank.side());
  const std::vector<Span>& spans = side.run->timeline.spans;
  std::vector<QueueText> texts;
  for (const QueueMoment& queue : queues) {
    QueueText& text = texts.emplace_back();
    text.queue = queue.queue;
    const double own_ns = side.Own(displayed_ns);
    if (queue.runs.has_value()) {
      const Span& span = spans[*queue.runs];
      text.runs = NameOfSpan(*side.run, span);
      text.starts = queue.starts;
      text.since = queue.starts ? "starts" : Time(own_ns - static_cast<double>(span.start_ns));
      text.left = Time(static_cast<double>(span.end_ns) - own_ns);
    } else if (queue.ended.has_value()) {
      text.runs = NameOfSpan(*side.run, spans[*queue.ended]);
      text.ends = true;
      text.since = "ends";
    } else {
      text.runs = "idle";
    }
    if (queue.next.has_value()) {
      const Span& next = spans[*queue.next];
      text.next = fmt::format("{} in {}", NameOfSpan(*side.run, next),
                              Time(static_cast<double>(next.start_ns) - own_ns));
    }
    text.to_go = std::to_string(queue.to_go);
  }
  return texts;
}

std::vector<CategoryText> TextsOf(const RankMoments::Memory& memory) {
  std::vector<std::size_t> order;
  for (std::size_t c = 0; c < memory.now.parts.size(); ++c) {
    if (memory.now.parts[c] > 0 || memory.before.parts[c] > 0) order.push_back(c);
  }
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return memory.now.parts[a] > memory.now.parts[b];
  });
  std::vector<CategoryText> texts;
  const auto add = [&](std::string name, std::int64_t now, std::int64_t before) {
    const std::int64_t change = now - before;
    texts.push_back(
        {std::move(name), FormatBytes(now),
         change == 0 ? std::string() : (change > 0 ? "+" : "-") + FormatBytes(std::abs(change))});
  };
  for (const std::size_t c : order) {
    add(InWords(Name(static_cast<Category>(c))), memory.now.parts[c], memory.before.parts[c]);
  }
  add("all", memory.now.total_bytes, memory.before.total_bytes);
  return texts;
}

}  // namespace foretrain::ui

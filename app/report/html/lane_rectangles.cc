#include "app/report/html/lane_rectangles.h"

#include <algorithm>
#include <array>
#include <set>
#include <span>

#include "traces/metrics/classes.h"

namespace foretrain {
namespace {

constexpr std::int64_t kMinOfLane = 16;

bool IsIn(const LaneWindow& window, const Span& span) {
  return span.start_ns >= window.start_ns && span.start_ns < window.end_ns;
}

// Sums spans that follow each other.
class Sum {
 public:
  void Add(const Span& span) {
    if (sum_.spans == 0 || span.start_ns < sum_.start_ns) sum_.start_ns = span.start_ns;
    sum_.end_ns = std::max(sum_.spans == 0 ? span.end_ns : sum_.end_ns, span.end_ns);
    const std::int64_t length = span.end_ns - span.start_ns;
    sum_.busy_ns += length;
    by_work_[static_cast<std::size_t>(WorkOf(span.op, span.op_class))] += length;
    sum_.span = ++sum_.spans == 1 ? &span : nullptr;
  }

  void TakeInto(std::vector<LaneRectangle>& out) {
    if (sum_.spans == 0) return;
    const auto most = std::max_element(by_work_.begin(), by_work_.end());
    sum_.work = static_cast<Work>(most - by_work_.begin());
    out.push_back(sum_);
    sum_ = {.spans = 0};
    by_work_ = {};
  }

 private:
  LaneRectangle sum_{.spans = 0};
  std::array<std::int64_t, kWorkCount> by_work_{};
};

// The piece of `window`, cut into `pieces`, in which a time lies. Doubles suffice: a piece that is
// a nanosecond off changes nothing.
std::int64_t PieceAt(const LaneWindow& window, std::int64_t time_ns, std::int64_t pieces) {
  const double length = static_cast<double>(window.end_ns) - static_cast<double>(window.start_ns);
  const double at = static_cast<double>(time_ns) - static_cast<double>(window.start_ns);
  return std::min(pieces - 1, static_cast<std::int64_t>(at / length * static_cast<double>(pieces)));
}

// Rectangles of one queue. Outside and inside the detailed window, spans are kept if there is room
// for all of them there.
std::vector<LaneRectangle> RectanglesOf(std::span<const Span> spans, const LaneOptions& options,
                                        std::int64_t max) {
  std::int64_t inside = 0, all = 0;
  for (const Span& span : spans) {
    if (!IsIn(options.window, span)) continue;
    ++all;
    if (IsIn(options.detail, span)) ++inside;
  }
  const std::int64_t of_detail = std::min(inside, all <= max ? all : max * 3 / 4);
  const std::int64_t of_rest = max - of_detail;
  std::vector<LaneRectangle> out;
  Sum sum;
  // The piece of the newest span: in the detailed window, or in the rest.
  bool was_inside = false;
  std::int64_t was_piece = -1;
  for (const Span& span : spans) {
    if (!IsIn(options.window, span)) continue;
    const bool is_inside = IsIn(options.detail, span);
    const bool is_whole = is_inside ? inside <= of_detail : all - inside <= of_rest;
    const std::int64_t piece = is_inside ? PieceAt(options.detail, span.start_ns, of_detail)
                                         : PieceAt(options.window, span.start_ns, of_rest);
    if (is_whole || is_inside != was_inside || piece != was_piece) sum.TakeInto(out);
    sum.Add(span);
    was_inside = is_inside;
    was_piece = piece;
  }
  sum.TakeInto(out);
  return out;
}

}  // namespace

std::vector<int> ShownRanks(const Timeline& timeline, std::size_t max) {
  std::set<int> found;
  for (const Span& span : timeline.spans) found.insert(span.rank);
  for (const StepWindow& step : timeline.steps) found.insert(step.rank);
  const std::vector<int> ranks(found.begin(), found.end());
  if (ranks.size() <= max) return ranks;
  std::vector<int> shown;
  for (std::size_t i = 0; i < max; ++i) shown.push_back(ranks[i * (ranks.size() - 1) / (max - 1)]);
  return shown;
}

std::vector<Lane> LanesOf(const Timeline& timeline, const std::vector<int>& ranks,
                          const LaneOptions& options) {
  struct Part {
    std::span<const Span> spans;
    std::int64_t in_window = 0;
  };
  std::vector<Part> parts;
  for (const int rank : ranks) {
    const std::span<const Span> of_rank = SpansOfRank(timeline, rank);
    for (auto at = of_rank.begin(); at != of_rank.end();) {
      const auto end = std::find_if(at, of_rank.end(),
                                    [&](const Span& span) { return span.queue != at->queue; });
      Part part{.spans = of_rank.subspan(static_cast<std::size_t>(at - of_rank.begin()),
                                         static_cast<std::size_t>(end - at))};
      part.in_window =
          std::count_if(at, end, [&](const Span& span) { return IsIn(options.window, span); });
      if (part.in_window > 0) parts.push_back(part);
      at = end;
    }
  }
  // Lanes with few spans leave their share to the others: the limit of a lane is the largest with
  // which all lanes together fit.
  std::vector<std::int64_t> counts;
  for (const Part& part : parts) counts.push_back(part.in_window);
  std::sort(counts.begin(), counts.end());
  std::int64_t left = options.max_rectangles, limit = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    limit = left / static_cast<std::int64_t>(counts.size() - i);
    if (counts[i] > limit) break;
    left -= counts[i];
    limit = counts[i];
  }
  limit = std::max(limit, kMinOfLane);
  std::vector<Lane> lanes;
  for (const Part& part : parts) {
    const Span& first = part.spans.front();
    lanes.push_back({first.rank, first.queue, RectanglesOf(part.spans, options, limit)});
  }
  return lanes;
}

}  // namespace foretrain

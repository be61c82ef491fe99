#include "ui/view_model/timeline/lanes.h"

#include <algorithm>
#include <span>
#include <tuple>
#include <utility>

#include "traces/metrics/classes.h"

namespace foretrain::ui {
namespace {

constexpr std::uint32_t Bit(Queue queue) { return 1U << static_cast<unsigned>(queue); }

// Indices of the spans of `rank` on the queues of `mask`, sorted by time. Among spans that start
// together the shorter comes first, so that one without length does not hide the next.
std::vector<std::uint32_t> IndicesOf(const Timeline& timeline, int rank, std::uint32_t mask) {
  const std::span<const Span> spans = SpansOfRank(timeline, rank);
  const auto base = static_cast<std::uint32_t>(spans.data() - timeline.spans.data());
  std::vector<std::uint32_t> indices;
  for (std::uint32_t i = 0; i < spans.size(); ++i) {
    if ((mask & Bit(spans[i].queue)) != 0) indices.push_back(base + i);
  }
  const auto key = [&](std::uint32_t i) {
    const Span& span = timeline.spans[i];
    return std::tuple(span.start_ns, span.end_ns, i);
  };
  const auto by_time = [&](std::uint32_t a, std::uint32_t b) { return key(a) < key(b); };
  if (!std::is_sorted(indices.begin(), indices.end(), by_time)) {
    std::sort(indices.begin(), indices.end(), by_time);
  }
  return indices;
}

// Sums are sorted by rank; empty if the run is loaded completely.
std::span<const TrackSums> SumsOfRank(const RunView& run, int rank) {
  if (run.sums == nullptr) return {};
  const auto [begin, end] =
      std::equal_range(run.sums->tracks.begin(), run.sums->tracks.end(), TrackSums{.rank = rank},
                       [](const TrackSums& a, const TrackSums& b) { return a.rank < b.rank; });
  return {begin, end};
}

// Overlapping spans need several tracks. Slots exist only on the compute row, whose first track
// holds its schedule.
Row RowOf(const RunView& run, int rank, std::string name, std::uint32_t mask,
          std::int64_t& left_out) {
  const std::vector<std::uint32_t> indices = IndicesOf(run.timeline, rank, mask);
  PackedTracks packed = PackTracks(run.timeline.spans, indices);
  left_out += packed.left_out;
  Row row{.name = std::move(name),
          .compute = mask == Bit(Queue::kCompute),
          .tracks = std::move(packed.tracks)};
  if (row.compute && !row.tracks.empty()) row.slots = row.tracks.front().Slots();
  for (const TrackSums& sums : SumsOfRank(run, rank)) {
    if ((mask & Bit(sums.queue)) != 0) row.sums.push_back(&sums);
  }
  return row;
}

}  // namespace

std::uint32_t QueuesOf(const RunView& run, int rank) {
  std::uint32_t mask = 0;
  for (const Span& span : SpansOfRank(run.timeline, rank)) mask |= Bit(span.queue);
  for (const TrackSums& sums : SumsOfRank(run, rank)) mask |= Bit(sums.queue);
  return mask;
}

// In kQueues both runs get the same rows, in the order of the queues.
std::vector<Row> RowsOf(const RunView& run, int rank, LaneRows rows, std::uint32_t queues,
                        std::int64_t& left_out) {
  std::vector<Row> result;
  if (rows == LaneRows::kMerged) {
    const std::uint32_t compute = Bit(Queue::kCompute);
    const std::uint32_t moves = ~(compute | Bit(Queue::kHost));
    result.push_back(RowOf(run, rank, "compute", compute, left_out));
    result.push_back(RowOf(run, rank, "communication", moves, left_out));
    return result;
  }
  for (int q = 0; q < kQueueCount; ++q) {
    const auto queue = static_cast<Queue>(q);
    if ((queues & Bit(queue)) == 0) continue;
    result.push_back(RowOf(run, rank, std::string(Name(queue)), Bit(queue), left_out));
  }
  return result;
}

// The error of an op with several spans is split by their lengths, so that the spans of a track sum
// to the op's error.
std::vector<float> ErrorsOf(const Track& track, std::span<const PairedOp> pairs, int rank,
                            std::int32_t step) {
  std::vector<float> errors(track.size(), kNoCounterpart);
  for (std::size_t i = 0; i < track.size(); ++i) {
    const Span& span = track.SpanAt(i);
    if (span.step != step) continue;
    const PairedOp* pair = FindPair(pairs, rank, span.op);
    if (pair == nullptr || !pair->IsPair()) continue;
    const auto busy = static_cast<double>(pair->measured->busy_ns);
    const auto length = static_cast<double>(span.end_ns - span.start_ns);
    errors[i] = busy > 0.0
                    ? static_cast<float>(static_cast<double>(pair->ErrorNs()) * length / busy)
                    : 0.0F;
  }
  return errors;
}

}  // namespace foretrain::ui

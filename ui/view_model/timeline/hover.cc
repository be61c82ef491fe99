#include "ui/view_model/timeline/hover.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "base/numeric/digits_apart.h"
#include "base/text.h"
#include "base/units.h"
#include "traces/unknown_coordinates.h"
#include "ui/view_model/panels/wait_rows.h"
#include "ui/view_model/timeline/ticks.h"

namespace foretrain::ui {
namespace {

std::string Duration(std::int64_t ns) { return FormatSeconds(SecondsFromNs(ns)); }

// The spans of the same rank that run in [start_ns, end_ns], and the host's launch of the op.
std::vector<Span> SpansAround(const Timeline& timeline, const Span& span, std::int64_t start_ns,
                              std::int64_t end_ns) {
  std::vector<Span> around;
  for (const Span& other : SpansOfRank(timeline, span.rank)) {
    const bool runs = other.end_ns > start_ns && other.start_ns <= end_ns;
    const bool launch =
        other.queue == Queue::kHost && other.op == span.op && other.step == span.step;
    if (runs || launch) around.push_back(other);
  }
  return around;
}

std::string_view ShortPass(Pass pass) {
  switch (pass) {
    case Pass::kForward:
      return "F";
    case Pass::kBackward:
    case Pass::kBackwardInput:
      return "B";
    case Pass::kBackwardWeight:
      return "W";
    case Pass::kRecompute:
      return "R";
    case Pass::kUpdate:
    case Pass::kNone:
      break;
  }
  return "";
}

bool IsUpdate(const InstructionKey& key) {
  return key.kind == InstructionKind::kOptimizerStep || key.kind == InstructionKind::kNorm ||
         key.pass == Pass::kUpdate;
}

void AddLine(HoverText& text, std::string name, std::string value, Tone tone = Tone::kPlain) {
  text.lines.push_back({std::move(name), std::move(value), tone});
}

// Bytes and achieved rates of a copy or collective; a side's total may be null.
void AddBytes(const SidePair& sides, const std::array<const OpTotal*, 2>& totals, HoverText& text) {
  const OpTotal* any = totals[1] != nullptr ? totals[1] : totals[0];
  if (any == nullptr || any->bytes <= 0) return;
  AddLine(text, "moves", FormatBytes(any->bytes));
  for (const Side side : kSides) {
    const OpTotal* const total = totals[Index(side)];
    if (total == nullptr || total->busy_ns <= 0) continue;
    const double rate = static_cast<double>(total->bytes) / SecondsFromNs(total->busy_ns);
    AddLine(text, fmt::format("{} rate", sides.NameOf(side)), FormatSi(rate, "B/s"));
  }
}

// The relative error is left out if the forecast is 0.
void AddError(const PairedOp& pair, HoverText& text) {
  const auto error = static_cast<double>(pair.ErrorNs());
  std::string value = SignedTime(error);
  if (pair.predicted->busy_ns > 0) {
    value += ", " + SignedPercent(error / static_cast<double>(pair.predicted->busy_ns));
  }
  const Tone tone = error > 0 ? Tone::kWorse : error < 0 ? Tone::kBetter : Tone::kPlain;
  AddLine(text, "error", std::move(value), tone);
}

// The drift is that at the measured end of the op.
void AddPair(const CompareModel& model, const PairedOp& pair, HoverText& text) {
  const std::vector<std::string> times = SecondsApart(std::array<double, 2>{
      SecondsFromNs(pair.predicted->busy_ns), SecondsFromNs(pair.measured->busy_ns)});
  AddLine(text, std::string(model.NameOf(Side::kPredicted)), times[0]);
  AddLine(text, "measured", times[1]);
  AddError(pair, text);
  const std::optional<std::size_t> lane = LaneOfRank(model, pair.rank);
  if (!lane.has_value()) return;
  const auto end =
      static_cast<double>(pair.measured->end_ns - model.Of(Side::kMeasured).step_start_ns);
  const auto drift = static_cast<double>(DriftAt(model.lanes[*lane].drift, end));
  AddLine(text, "drift here", SignedTime(drift));
}

// A span with a counterpart shows both times and the error, any other span its own time.
void AddTimes(const CompareModel& model, int lane_rank, const SpanRef& ref, HoverText& text) {
  const Span& span = model.SpanOf(ref);
  const bool comparable = model.HasBoth() && span.step == model.Of(ref.side).step;
  const PairedOp* pair = comparable ? FindPair(model.pairs, lane_rank, span.op) : nullptr;
  if (pair != nullptr && pair->IsPair()) {
    AddPair(model, *pair, text);
    AddBytes(model, {&*pair->predicted, &*pair->measured}, text);
    return;
  }
  AddLine(text, std::string(model.NameOf(ref.side)), Duration(span.end_ns - span.start_ns));
  if (comparable) AddLine(text, "counterpart", "none", Tone::kAmber);
  const OpTotal alone{.busy_ns = span.end_ns - span.start_ns, .bytes = span.bytes};
  std::array<const OpTotal*, 2> totals{};
  totals[Index(ref.side)] = &alone;
  AddBytes(model, totals, text);
}

// The kernels of a span's op; none on the host queue, where the span is a launch.
std::vector<const KernelRow*> KernelsOf(const RunView& run, const Span& span) {
  if (span.queue == Queue::kHost || !IsValidId(span.op)) return {};
  return run.kernels.Of(span.op);
}

// The first kernel's name, and how many others there are. A stored table has the longest first.
void AddKernelNames(const RunView& run, const Span& span, HoverText& text) {
  const std::vector<const KernelRow*> rows = KernelsOf(run, span);
  if (rows.empty()) return;
  std::string names = Printable(ShortKernelName(rows.front()->name));
  if (rows.size() > 1) names += fmt::format(" and {} more", rows.size() - 1);
  AddLine(text, rows.size() > 1 ? "kernels" : "kernel", std::move(names));
}

// Launch and occupancy of the first kMaxKernels kernels.
void AddLaunches(const RunView& run, const Span& span, HoverText& text) {
  constexpr std::size_t kMaxKernels = 4;
  const std::vector<const KernelRow*> rows = KernelsOf(run, span);
  for (std::size_t i = 0; i < std::min(rows.size(), kMaxKernels); ++i) {
    const KernelLaunch& launch = rows[i]->launch;
    if (!launch.IsKnown()) continue;
    if (rows.size() > 1) AddLine(text, "kernel", Printable(ShortKernelName(rows[i]->name)));
    AddLine(text, "launch", Describe(launch));
    const auto occupancy = TheoreticalOccupancy(launch, run.kernels.capability);
    if (occupancy.has_value()) AddLine(text, "occupancy", Describe(*occupancy));
  }
}

// Names the simulated rank too if it represents this one.
std::string PlaceOf(const CompareModel& model, int lane_rank, const SpanRef& ref) {
  const Span& span = model.SpanOf(ref);
  std::string place =
      fmt::format("rank {}, {} queue, step {}", lane_rank, Name(span.queue), span.step);
  const int own = model.RankOn(ref.side, lane_rank);
  if (own != lane_rank) place += fmt::format(", simulated as rank {}", own);
  return place;
}

}  // namespace

// Spans are sorted by rank, queue and start, so the previous span of the queue is the one before in
// the array. The causes come from the spans that overlap the gap alone.
std::optional<Wait> WaitBefore(const Timeline& timeline, std::uint32_t span,
                               std::int64_t not_before_ns) {
  const Span& here = timeline.spans[span];
  std::int64_t start = std::min(not_before_ns, here.start_ns);
  if (span > 0) {
    const Span& before = timeline.spans[span - 1];
    if (before.rank == here.rank && before.queue == here.queue) {
      start = std::max(start, before.end_ns);
    }
  }
  if (start >= here.start_ns) return std::nullopt;
  const std::vector<Span> around = SpansAround(timeline, here, start, here.end_ns);
  const RankClasses classes(around);
  const RankIdle idle(around, classes.DeviceBusy());
  return Wait{start, here.start_ns, classes.In(start, here.start_ns),
              idle.In(start, here.start_ns)};
}

// Causes are sorted by length; the first one below 2 % ends the list.
std::string DescribeWait(const Wait& wait) {
  std::vector<std::pair<std::int64_t, std::string_view>> causes{
      {wait.classes.compute_ns, "compute elsewhere"},
      {wait.classes.exposed_communication_ns, "communication"},
      {wait.classes.exposed_copy_ns, "copy"},
      {wait.idle.dependency_ns, "dependency wait"},
      {wait.idle.peer_ns, "peer wait"},
      {wait.idle.host_ns, "host wait"},
      {wait.idle.drain_ns, "drain"},
  };
  std::stable_sort(causes.begin(), causes.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::string text;
  for (const auto& [length, name] : causes) {
    // Causes below 2 % of the gap are left out.
    if (length * 50 < wait.LengthNs()) break;
    text += (text.empty() ? "" : ", ") + Duration(length) + " " + std::string(name);
  }
  return text;
}

std::string OpTitle(const RunView& run, OpId op) {
  if (!IsValidId(op)) return "not part of the program";
  const auto name = run.timeline.op_names.find(NameKey(op));
  if (name != run.timeline.op_names.end()) return Printable(name->second);
  return Describe(op, run.layers);
}

// Spans without a known micro-batch, as in imported traces, are labelled by pass alone.
std::string SlotLabel(OpId op, bool wide) {
  if (!IsValidId(op)) return {};
  const InstructionKey key = UnpackId(op);
  if (IsUpdate(key)) return wide ? "update" : "U";
  if (key.kind != InstructionKind::kBlock || key.pass == Pass::kNone) return {};
  if (!IsMicroBatchKnown(key)) return std::string(wide ? Name(key.pass) : ShortPass(key.pass));
  if (wide) return fmt::format("{} mb {}", Name(key.pass), key.micro_batch);
  return fmt::format("{}{}", ShortPass(key.pass), key.micro_batch);
}

std::string InstructionLabel(const RunView& run, OpId op) {
  if (!IsValidId(op)) return {};
  const InstructionKey key = UnpackId(op);
  if (key.kind != InstructionKind::kBlock) return std::string(Name(key.kind));
  if (!IsBlockKnown(key)) return {};
  if (run.layers <= 0) return fmt::format("block {}", key.block);
  if (key.block == 0) return "embedding";
  return key.block <= run.layers ? fmt::format("layer {}", key.block) : "head";
}

// The wait before the span is shown only if its whole range is loaded.
HoverText HoverOfSpan(const CompareModel& model, int lane_rank, const SpanRef& ref) {
  const RunView& run = *model.Of(ref.side).run;
  const Span& span = model.SpanOf(ref);
  HoverText text{.title = OpTitle(run, span.op), .subtitle = {}, .lines = {}};
  if (IsValidId(span.op)) text.subtitle = Describe(InstructionOf(span.op), run.layers);
  if (text.subtitle == text.title) text.subtitle = Name(span.op_class);
  AddTimes(model, lane_rank, ref, text);
  AddKernelNames(run, span, text);
  const std::optional<Wait> wait =
      WaitBefore(run.timeline, ref.span, model.Of(ref.side).step_start_ns);
  if (wait.has_value() &&
      run.IsLoaded(static_cast<double>(wait->start_ns), static_cast<double>(wait->end_ns))) {
    AddLine(text, "before it", DescribeWait(*wait));
  }
  AddLine(text, "place", PlaceOf(model, lane_rank, ref));
  return text;
}

// Times are relative to the step of the span's own run.
HoverText DetailsOfSpan(const CompareModel& model, int lane_rank, const SpanRef& ref) {
  HoverText text = HoverOfSpan(model, lane_rank, ref);
  const SideModel& side = model.Of(ref.side);
  const Span& span = model.SpanOf(ref);
  const auto since = [&side](std::int64_t own_ns) {
    return PreciseTime(static_cast<double>(own_ns - side.step_start_ns));
  };
  AddLine(text, "run", side.run->label.substr(0, side.run->label.find(':')));
  AddLine(text, "starts", since(span.start_ns) + " into the step");
  AddLine(text, "ends", since(span.end_ns));
  if (span.ready_ns > 0) {
    AddLine(text, IsCommunication(span.op_class) ? "arrived" : "inputs ready",
            since(span.ready_ns));
  }
  AddLine(text, "class", std::string(Name(span.op_class)));
  if (IsValidId(span.op)) AddLine(text, "op id", std::to_string(span.op));
  AddLaunches(*side.run, span, text);
  const auto counterpart = CounterpartOf(model, lane_rank, ref);
  if (!counterpart.has_value()) return text;
  const SideModel& other = model.Of(counterpart->side);
  const Span& its = model.SpanOf(*counterpart);
  AddLine(text, "counterpart starts",
          PreciseTime(static_cast<double>(its.start_ns - other.step_start_ns)) + " into the step");
  return text;
}

// A gap next to unloaded spans is not explained: something may have run there.
std::optional<HoverText> HoverOfGap(const CompareModel& model, std::size_t lane, Side side,
                                    double displayed_ns) {
  const std::vector<Row>& rows = model.lanes[lane].rows[Index(side)];
  const auto row = std::find_if(rows.begin(), rows.end(), [](const Row& r) { return r.compute; });
  const double own = model.Of(side).Own(displayed_ns);
  if (!model.Of(side).run->IsLoaded(own, own)) {
    return HoverText{.title = "drawn from sums of spans",
                     .subtitle = std::string(model.NameOf(side)),
                     .lines = {{"single spans", "are read where you zoom in"}}};
  }
  if (row == rows.end() || row->tracks.empty()) return std::nullopt;
  const Track& track = row->tracks.front();
  // The gap ends with the next span; there is none if that span already runs.
  const std::size_t next = track.FirstEndingAfter(own);
  if (next == track.size() || static_cast<double>(track.SpanAt(next).start_ns) <= own) {
    return std::nullopt;
  }
  const std::optional<Wait> wait =
      WaitBefore(model.TimelineOf(side), track.IndexAt(next), model.Of(side).step_start_ns);
  if (!wait.has_value() || own < static_cast<double>(wait->start_ns)) return std::nullopt;
  if (!model.Of(side).run->IsLoaded(static_cast<double>(wait->start_ns),
                                    static_cast<double>(wait->end_ns))) {
    return std::nullopt;
  }
  HoverText text{.title = "nothing to compute, " + Duration(wait->LengthNs()),
                 .subtitle = std::string(model.NameOf(side)),
                 .lines = {}};
  AddLine(text, "cause", DescribeWait(*wait));
  if (const auto& causes = model.bubble_causes[Index(side)]; causes.has_value()) {
    AddLine(text, "bubble of the step", DescribeBubble(*causes));
  }
  const Span& ends = track.SpanAt(next);
  AddLine(text, "ended by",
          OpTitle(*model.Of(side).run, ends.op) +
              (IsValidId(ends.op)
                   ? " of " + Describe(InstructionOf(ends.op), model.Of(side).run->layers)
                   : ""));
  return text;
}

}  // namespace foretrain::ui

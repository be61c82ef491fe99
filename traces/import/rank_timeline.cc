#include "traces/import/rank_timeline.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "base/text.h"
#include "traces/import/host_context.h"

namespace foretrain::trace_import {
namespace {

// If a kernel starts this long after its launch and after its predecessor on the stream, it waited
// for something else, e.g. an event or a peer.
constexpr std::int64_t kLaunchNs = 10'000;
// A stream runs one kernel at a time. If one starts up to this long before its predecessor ends,
// the times were rounded: its start is moved to that end.
constexpr std::int64_t kRoundingNs = 1'000;
constexpr std::int32_t kNoStep = -1;

// Converts one rank: finds the launching calls by correlation, then the steps, then device spans,
// host spans and memory. Device spans come before host spans, because a launch takes the id of its
// work.
class Builder {
 public:
  Builder(const RankEvents& events, const OpTable& table, const RankOptions& options, OpIds& ids)
      : events_(events),
        table_(table),
        options_(options),
        ids_(ids),
        context_(ContextOf(events, table, options.step_name)),
        meanings_(events.names.size()) {
    has_device_ = events.HasDevice();
  }

  RankTimeline Build() {
    FindCalls();
    FindSteps();
    AddDevice();
    ShareWork();
    AddHost();
    EndLastStep();
    AddMemory();
    for (const auto& [place, spans] : uses_) {
      const RawTrack& track = events_.tracks[place.first];
      out_.queues.push_back({track.process, track.thread, place.second, spans});
    }
    return std::move(out_);
  }

 private:
  std::int64_t Moved(std::int64_t time_ns) const { return time_ns + options_.offset_ns; }

  void FindCalls() {
    for (std::uint32_t i = 0; i < events_.events.size(); ++i) {
      const RawEvent& event = events_.events[i];
      if (event.kind == RawKind::kCall && event.correlation >= 0) {
        calls_.try_emplace(event.correlation, i);
      }
    }
  }

  const RawEvent* CallOf(const RawEvent& event) const {
    const auto found = calls_.find(event.correlation);
    return event.correlation < 0 || found == calls_.end() ? nullptr
                                                          : &events_.events[found->second];
  }

  // Step numbers come from the ranges' names if they rise, else steps are numbered from 0. A step
  // ends where the next begins.
  void FindSteps() {
    if (context_.steps.empty()) return AddOnlyStep();
    std::vector<std::pair<int, const RawEvent*>> found;
    bool rise = true;
    for (const std::uint32_t i : context_.steps) {
      const RawEvent& event = events_.events[i];
      const std::string& name = events_.names.Text(event.name);
      const std::optional<int> number = options_.step_name.empty()
                                            ? table_.FindRange(name).step
                                            : NumberBehind(name, options_.step_name);
      // A range that starts inside the previous one is the same step, annotated by another thread.
      if (!found.empty() && event.start_ns < found.back().second->end_ns) continue;
      rise = rise && number.has_value() && (found.empty() || *number > found.back().first);
      found.emplace_back(number.value_or(0), &event);
    }
    for (std::size_t i = 0; i < found.size(); ++i) {
      const std::int64_t end =
          i + 1 < found.size() ? found[i + 1].second->start_ns : found[i].second->end_ns;
      AddStep(rise ? found[i].first : static_cast<int>(i), found[i].second->start_ns, end);
    }
    if (!rise)
      out_.notes.push_back("steps are numbered in order: their ranges have no rising ones");
  }

  void AddOnlyStep() {
    out_.notes.push_back(options_.step_name.empty()
                             ? "no range says where a step begins: all of it is one step"
                             : "no range begins with \"" + Printable(options_.step_name) +
                                   "\": all of it is one step");
    std::int64_t start = std::numeric_limits<std::int64_t>::max();
    std::int64_t end = std::numeric_limits<std::int64_t>::min();
    for (const RawEvent& event : events_.events) {
      start = std::min(start, event.start_ns);
      end = std::max(end, event.end_ns);
    }
    // A trace of memory alone. A window ends before its end, and its last sample counts.
    for (const MemorySample& sample : events_.memory) {
      if (!events_.events.empty()) break;
      start = std::min(start, sample.time_ns);
      end = std::max(end, sample.time_ns + 1);
    }
    if (start <= end) AddStep(0, start, end);
  }

  void AddStep(int number, std::int64_t start_ns, std::int64_t end_ns) {
    out_.steps.push_back({.start_ns = Moved(start_ns),
                          .end_ns = Moved(end_ns),
                          .step = number,
                          .rank = static_cast<std::int16_t>(options_.rank)});
  }

  // The step whose window contains a (moved) time; kNoStep if there is none.
  std::int32_t StepAt(std::int64_t time_ns) const {
    auto at = std::upper_bound(
        out_.steps.begin(), out_.steps.end(), time_ns,
        [](std::int64_t time, const StepWindow& step) { return time < step.start_ns; });
    if (at == out_.steps.begin()) return kNoStep;
    --at;
    return time_ns <= at->end_ns ? at->step : kNoStep;
  }

  // Device events by start, so that calls of one name are numbered in the order of execution.
  std::vector<std::uint32_t> DeviceOrder() const {
    std::vector<std::uint32_t> order;
    for (std::uint32_t i = 0; i < events_.events.size(); ++i) {
      if (IsOnDevice(events_.events[i].kind)) order.push_back(i);
    }
    const auto key = [this](std::uint32_t i) {
      const RawEvent& event = events_.events[i];
      return std::tuple(event.start_ns, event.track, event.end_ns, i);
    };
    std::sort(order.begin(), order.end(),
              [&key](std::uint32_t a, std::uint32_t b) { return key(a) < key(b); });
    return order;
  }

  // A span belongs to the step in which its launch was issued, and inherits the launch's
  // surroundings. It was ready when it was issued, or when it started if it clearly waited for
  // something else.
  void AddDevice() {
    std::unordered_map<std::uint32_t, std::int64_t> stream_ends;
    for (const std::uint32_t i : DeviceOrder()) {
      const RawEvent& event = events_.events[i];
      const RawEvent* const call = CallOf(event);
      const NameMeaning meaning = MeaningOf(event);
      Surroundings around;
      if (call != nullptr) around = context_.of[calls_.at(event.correlation)];
      if (meaning.pass != Pass::kNone) around.pass = meaning.pass;
      const std::int64_t issued = call != nullptr ? call->start_ns : event.start_ns;
      const OpId id = IdOf(event, meaning, around, StepAt(Moved(issued)));
      if (call != nullptr) launched_.try_emplace(event.correlation, id);
      if (event.kind == RawKind::kKernel) CountKernel(event, id, around.op);

      const auto [stream_end, is_first] =
          stream_ends.try_emplace(event.track, std::numeric_limits<std::int64_t>::min());
      const std::int64_t before = stream_end->second;
      const bool rounded = !is_first && event.start_ns < before &&
                           before - event.start_ns <= kRoundingNs && before <= event.end_ns;
      const std::int64_t start = rounded ? before : event.start_ns;
      const bool waited = start - (is_first ? issued : std::max(issued, before)) > kLaunchNs;
      stream_end->second = std::max(before, event.end_ns);
      AddSpan(event, start, event.end_ns,
              {.op = id,
               .bytes = event.bytes,
               .ready_ns = Moved(waited ? start : std::min(issued, start)),
               .step = StepAt(Moved(issued)),
               .queue = QueueOfDevice(event, meaning),
               .op_class = meaning.op_class});
      if (IsCommunication(meaning.op_class)) AddCall(event, meaning);
    }
  }

  // The communication of the newest span, if the trace says whose it is.
  void AddCall(const RawEvent& event, const NameMeaning& meaning) {
    if (event.group == 0) return;
    const RawGroup& group = events_.groups[event.group - 1];
    out_.grouped.push_back({out_.spans.size() - 1, event.group - 1});
    const bool transfer =
        meaning.kind == InstructionKind::kSend || meaning.kind == InstructionKind::kRecv;
    const bool has_ends = group.source >= 0 && group.destination >= 0;
    if ((group.name.empty() && group.ranks.empty()) || transfer != has_ends) return;
    CommunicationCall call{.span = out_.spans.size() - 1, .step = out_.spans.back().step};
    call.group = group.name + " " + group.ranks;
    call.members = static_cast<int>(group.size);
    if (transfer) {
      call.group += " " + std::to_string(group.source) + ">" + std::to_string(group.destination);
      call.members = 2;
    }
    out_.calls.push_back(std::move(call));
  }

  // `op`: the host event whose work it is part of; -1: unknown.
  void CountKernel(const RawEvent& event, OpId id, std::int64_t op) {
    std::vector<KernelRow>& rows = out_.kernels.rows;
    const auto [at, is_new] = kernel_rows_.try_emplace({event.name, event.detail},
                                                       static_cast<std::uint32_t>(rows.size()));
    if (is_new) {
      rows.push_back({.name = events_.names.Text(event.name)});
      if (event.detail > 0) rows.back().launch = events_.launches[event.detail - 1];
    }
    ++rows[at->second].calls;
    const std::int64_t length = event.end_ns - event.start_ns;
    rows[at->second].total_ns += length;
    out_.kernels.Own(id, at->second);
    if (op >= 0 && length > 0) kernels_of_[op].push_back({at->second, length});
  }

  // Shares each op's work among the kernels it launched, by their times.
  void ShareWork() {
    for (const auto& [op, kernels] : kernels_of_) {
      const OpWork& work = events_.works[events_.events[static_cast<std::size_t>(op)].detail - 1];
      std::int64_t all_ns = 0;
      for (const auto& [row, length_ns] : kernels) all_ns += length_ns;
      for (const auto& [row, length_ns] : kernels) {
        const double share = static_cast<double>(length_ns) / static_cast<double>(all_ns);
        out_.kernels.rows[row].work.Add({.flops = work.flops * share,
                                         .bytes = work.bytes * share,
                                         .time_ns = length_ns,
                                         .format = std::string(work.format)});
      }
    }
  }

  void AddHost() {
    std::unordered_map<std::uint32_t, OpId> ids;            // by event
    std::unordered_map<std::uint32_t, std::int64_t> ready;  // by thread: when it was free again
    for (const Stretch& stretch : context_.stretches) {
      const RawEvent& event = events_.events[stretch.event];
      NameMeaning meaning = MeaningOf(event);
      if (has_device_ || event.kind == RawKind::kCall) meaning = {.op_class = OpClass::kHost};
      const std::int32_t step = StepAt(Moved(event.start_ns));
      const auto [id, is_new] = ids.try_emplace(stretch.event, kNoOp);
      // A thread's ops follow each other: a gap between two of them is the program's own delay.
      const std::int64_t free = ready.try_emplace(event.track, stretch.start_ns).first->second;
      ready[event.track] = stretch.end_ns;
      if (is_new) id->second = HostId(event, meaning, context_.of[stretch.event], step);
      AddSpan(event, stretch.start_ns, stretch.end_ns,
              {.op = id->second,
               .ready_ns = Moved(std::min(free, stretch.start_ns)),
               .step = step,
               .queue = QueueOf(meaning),
               .op_class = meaning.op_class});
      const bool is_whole = stretch.start_ns == event.start_ns && stretch.end_ns == event.end_ns;
      if (is_whole && IsCommunication(meaning.op_class)) AddCall(event, meaning);
    }
  }

  // A launching call gets the id of the work it launched, so that both ends of a launch join.
  OpId HostId(const RawEvent& event, const NameMeaning& meaning, Surroundings around,
              std::int32_t step) {
    const auto launched = launched_.find(event.correlation);
    if (event.correlation >= 0 && launched != launched_.end()) return launched->second;
    if (meaning.pass == Pass::kUpdate) around.pass = meaning.pass;
    return IdOf(event, meaning, around, step);
  }

  // The optimizer's kernels form one instruction; copies are told apart by their direction.
  OpId IdOf(const RawEvent& event, const NameMeaning& meaning, const Surroundings& around,
            std::int32_t step) {
    CallKey key{.pass = around.pass, .layer = around.layer, .micro_batch = around.micro_batch};
    if (meaning.kind.has_value()) key.kind = *meaning.kind;
    if (around.pass == Pass::kUpdate && IsCompute(meaning.op_class)) {
      key.kind = InstructionKind::kOptimizerStep;
    }
    if (meaning.op_class == OpClass::kCopy) {
      key.kind = QueueOfDevice(event, meaning) == Queue::kD2h ? InstructionKind::kCopyOut
                                                              : InstructionKind::kCopyIn;
    }
    return ids_.Next(key, events_.names.Text(event.name), options_.rank, step);
  }

  // The table's meaning of a name is cached. The library's own record of a collective goes before
  // the kernel's name, and its process group decides between tensor, data and other parallelism.
  NameMeaning MeaningOf(const RawEvent& event) {
    std::optional<NameMeaning>& known = meanings_[event.name];
    const std::string& name = events_.names.Text(event.name);
    if (event.kind == RawKind::kSet) return {};
    if (event.kind == RawKind::kCopy) return {.op_class = OpClass::kCopy};
    if (event.kind == RawKind::kCall) return {.op_class = OpClass::kHost};
    if (!known.has_value()) {
      const NamePlace place = event.kind == RawKind::kKernel ? NamePlace::kKernel : NamePlace::kOp;
      known = table_.Find(place, name).value_or(NameMeaning{});
    }
    NameMeaning meaning = *known;
    if (event.collective > 0) {
      const std::string& kind = events_.names.Text(event.collective - 1);
      meaning = table_.Find(NamePlace::kCollective, kind).value_or(meaning);
    }
    if (event.group > 0 && IsCommunication(meaning.op_class)) {
      const auto group =
          table_.Find(NamePlace::kGroup, events_.groups[event.group - 1].description);
      if (group.has_value()) meaning.op_class = group->op_class;
    }
    return meaning;
  }

  static bool Crosses(std::string_view name, std::string_view way) {
    return name.find(way) != std::string_view::npos;
  }

  Queue QueueOfDevice(const RawEvent& event, const NameMeaning& meaning) const {
    if (meaning.op_class != OpClass::kCopy) return QueueOf(meaning);
    const std::string& name = events_.names.Text(event.name);
    // Copies within the device, or between two.
    if (!Crosses(name, "HtoD") && !Crosses(name, "DtoH")) return Queue::kCompute;
    return Crosses(name, "DtoH") ? Queue::kD2h : Queue::kH2d;
  }

  void AddSpan(const RawEvent& event, std::int64_t start_ns, std::int64_t end_ns, Span span) {
    span.start_ns = Moved(start_ns);
    span.end_ns = Moved(end_ns);
    span.rank = static_cast<std::int16_t>(options_.rank);
    out_.spans.push_back(span);
    ++uses_[{event.track, span.queue}];
  }

  // Work of the last step may end after its range: its window is extended.
  void EndLastStep() {
    if (out_.steps.empty()) return;
    StepWindow& last = out_.steps.back();
    for (const Span& span : out_.spans) {
      if (span.step == last.step) last.end_ns = std::max(last.end_ns, span.end_ns);
    }
  }

  void AddMemory() {
    for (MemorySample sample : events_.memory) {
      sample.time_ns = Moved(sample.time_ns);
      sample.rank = static_cast<std::int16_t>(options_.rank);
      // A training on the host: its memory plays the role of device memory.
      if (!has_device_) sample.space = Space::kDevice;
      out_.memory.push_back(sample);
    }
  }

  const RankEvents& events_;
  const OpTable& table_;
  const RankOptions& options_;
  OpIds& ids_;
  HostContext context_;
  std::vector<std::optional<NameMeaning>> meanings_;       // by name, for kernels and ops
  std::unordered_map<std::int64_t, std::uint32_t> calls_;  // by correlation
  std::unordered_map<std::int64_t, OpId> launched_;        // by correlation: the first op launched
  std::map<std::pair<std::uint32_t, Queue>, std::int64_t> uses_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> kernel_rows_;  // by name, launch
  // By host op, in the order of the trace: rows of its kernels, with their times.
  std::map<std::int64_t, std::vector<std::pair<std::uint32_t, std::int64_t>>> kernels_of_;
  bool has_device_ = false;
  RankTimeline out_;
};

}  // namespace

RankTimeline TimelineOfRank(const RankEvents& events, const OpTable& table,
                            const RankOptions& options, OpIds& ids) {
  return Builder(events, table, options, ids).Build();
}

}  // namespace foretrain::trace_import

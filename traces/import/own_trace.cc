#include "traces/import/own_trace.h"

#include <algorithm>
#include <limits>

#include "base/text.h"
#include "traces/import/raw_events.h"
#include "traces/run.h"

namespace foretrain::trace_import {
namespace {

constexpr std::string_view kMemory = " memory";
constexpr std::string_view kRank = " rank ";
// Larger numbers of bytes are errors of the file.
constexpr std::int64_t kMaxBytes = std::int64_t{1} << 56;

// Splits "measured 3 (8b) rank 5" into title and rank; `nullopt` for other texts.
std::optional<std::pair<std::string, std::int16_t>> TitleOf(std::string_view text) {
  const std::size_t at = text.rfind(kRank);
  if (at == std::string_view::npos) return std::nullopt;
  if (!ParseRunKind(text.substr(0, text.find(' '))).has_value()) return std::nullopt;
  const auto rank =
      ParseInt("rank", text.substr(at + kRank.size()), 0, std::numeric_limits<std::int16_t>::max());
  if (!rank.has_value()) return std::nullopt;
  return std::pair(std::string(text.substr(0, at)), static_cast<std::int16_t>(*rank));
}

}  // namespace

// The event's time without the shift of its process.
std::optional<std::int64_t> OwnTraceReader::StartOf(const JsonEvent& event,
                                                    const Process& process) {
  const std::optional<std::int64_t> time = event.TimeNs();
  if (!time || *time < -kFarNs || *time > kFarNs) return time;
  return *time - std::clamp(process.shift_ns, -kFarNs, kFarNs);
}

// Metadata events come before all others of their process: they map process and thread numbers to
// runs, ranks and queues.
bool OwnTraceReader::TakeTitle(const JsonEvent& event) {
  const std::string_view text = event.Text("name");
  if (event.name == "process_name") {
    const auto title = TitleOf(text);
    if (!title.has_value()) return false;
    auto run = std::find_if(runs_.begin(), runs_.end(),
                            [&](const OwnRun& known) { return known.title == title->first; });
    if (run == runs_.end()) run = runs_.insert(run, OwnRun{.title = title->first});
    run->timeline.world = std::max(run->timeline.world, title->second + 1);
    processes_[event.process] = {static_cast<std::size_t>(run - runs_.begin()), title->second};
    return true;
  }
  const auto process = processes_.find(event.process);
  if (process == processes_.end()) return false;
  if (event.name == "shift") process->second.shift_ns = event.Integer("ns").value_or(0);
  if (event.name == "thread_name") {
    // Spans that overlap stand on further threads: "compute 2".
    const std::size_t last = text.find_last_not_of("0123456789");
    const bool numbered =
        last != std::string_view::npos && last + 1 < text.size() && text[last] == ' ';
    const std::optional<Queue> queue = ParseQueue(numbered ? text.substr(0, last) : text);
    if (queue.has_value()) process->second.threads[event.thread] = static_cast<int>(*queue);
    if (text == "steps") process->second.threads[event.thread] = kSteps;
  }
  return true;
}

// Events of processes without one of our titles are left to other readers.
bool OwnTraceReader::Take(const JsonEvent& event) {
  if (event.phase == "M") return TakeTitle(event);
  const auto process = processes_.find(event.process);
  if (process == processes_.end()) return false;
  if (event.phase == "X") TakeSpan(event, process->second);
  if (event.phase == "C") TakeMemory(event, process->second);
  return true;
}

// Restores a span or step window. Every field is checked against its range: the file may have been
// edited.
void OwnTraceReader::TakeSpan(const JsonEvent& event, const Process& process) {
  const std::optional<std::int64_t> start = StartOf(event, process);
  const std::optional<std::int64_t> length = event.DurationNs();
  const auto thread = process.threads.find(event.thread);
  if (!start || !length || *length < 0 || *length > kFarNs || *start < -kFarNs || *start > kFarNs ||
      thread == process.threads.end()) {
    ++invalid_;
    return;
  }
  Timeline& timeline = runs_[process.run].timeline;
  if (thread->second == kSteps) {
    const auto step =
        ParseInt("step", event.name.substr(std::min<std::size_t>(5, event.name.size())), 0,
                 std::numeric_limits<std::int32_t>::max());
    if (!step.has_value()) {
      ++invalid_;
      return;
    }
    timeline.steps.push_back(
        {*start, *start + *length, static_cast<std::int32_t>(*step), process.rank});
    return;
  }
  const std::optional<OpClass> op_class = ParseOpClass(event.category);
  const std::int64_t step = event.Integer("step").value_or(0);
  const std::int64_t bytes = event.Integer("bytes").value_or(0);
  const std::int64_t wait = NanosecondsOf(event.Text("wait_us")).value_or(0);
  const OpId op = event.Integer("id").value_or(kNoOp);
  if (!op_class || bytes < 0 || bytes > kMaxBytes || wait < 0 || (op != kNoOp && !IsValidId(op)) ||
      step < std::numeric_limits<std::int32_t>::min() ||
      step > std::numeric_limits<std::int32_t>::max()) {
    ++invalid_;
    return;
  }
  timeline.spans.push_back({.start_ns = *start,
                            .end_ns = *start + *length,
                            .op = op,
                            .bytes = bytes,
                            .ready_ns = *start - wait,
                            .step = static_cast<std::int32_t>(step),
                            .rank = process.rank,
                            .queue = static_cast<Queue>(thread->second),
                            .op_class = *op_class});
  // A name that equals the id's description was not recorded: it is derived again when shown.
  if (op != kNoOp && event.name != event.Text("op")) {
    timeline.op_names.try_emplace(NameKey(op), event.name);
  }
}

// Restores samples from counter events, which list all categories of a space.
void OwnTraceReader::TakeMemory(const JsonEvent& event, Process& process) {
  const std::optional<std::int64_t> time = StartOf(event, process);
  if (!time.has_value() || *time < -kFarNs || *time > kFarNs || !event.name.ends_with(kMemory))
    return;
  const std::optional<Space> space =
      ParseSpace(event.name.substr(0, event.name.size() - kMemory.size()));
  if (!space.has_value()) return;
  for (std::size_t i = 0; i < event.argument_count(); ++i) {
    const std::optional<Category> category = ParseCategory(event.argument(i).name);
    const std::optional<std::int64_t> bytes = event.argument(i).Integer();
    if (!category || !bytes || *bytes < 0 || *bytes > kMaxBytes) continue;
    // A counter event repeats all categories; only those that changed are samples.
    const auto [live, is_new] = process.live.try_emplace({*space, *category}, *bytes);
    if (!is_new && live->second == *bytes) continue;
    live->second = *bytes;
    runs_[process.run].timeline.memory.push_back({*time, *bytes, process.rank, *category, *space});
  }
}

// Events may stand in any order in the file, so timelines are sorted at the end.
std::vector<OwnRun> OwnTraceReader::Finish() {
  for (OwnRun& run : runs_) SortTimeline(run.timeline);
  return std::move(runs_);
}

}  // namespace foretrain::trace_import

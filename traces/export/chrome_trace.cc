#include "traces/export/chrome_trace.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "base/json/json.h"
#include "base/text.h"
#include "traces/export/event_text.h"
#include "traces/kinds.h"

namespace foretrain {
namespace {

// Text is collected to this size before each write: few calls of the sink, bounded memory.
constexpr std::size_t kFlushBytes = 64 * 1024;
constexpr int kStepThread = kQueueCount;  // threads below it are queues
// A queue's further threads, for spans that overlap, are this far apart.
constexpr int kLaneDistance = 32;

}  // namespace

class ChromeTraceWriter::Writer {
 public:
  explicit Writer(TextSink sink) : sink_(std::move(sink)) {}

  Result<void> Begin() {
    text_ += "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[";
    return FlushIfFull();
  }

  Result<void> End() {
    text_ += "\n]}\n";
    return Flush();
  }

  // Adds the spans, then the step windows, then the memory counters. Trace viewers sort events by
  // time themselves, so the order in the file does not matter.
  Result<void> AddRun(const Timeline& timeline, const ChromeRun& run) {
    run_ = &run;
    timeline_ = &timeline;
    processes_.clear();
    kernels_.clear();
    flows_.BeginRun(run.flows);
    for (const Span& span : timeline.spans) FT_TRY(AddSpan(span));
    for (const StepWindow& window : timeline.steps) FT_TRY(AddStep(window));
    FT_TRY(AddMemory());
    FT_TRY(AddCounters());
    for (const TraceFlow& flow : flows_.TakeRun()) FT_TRY(AddFlow(flow));
    return {};
  }

 private:
  // Starts an event with its phase, process and thread; the caller closes the object.
  void Open(char phase, int process, int thread) {
    text_ += first_ ? "\n" : ",\n";
    first_ = false;
    text_ += "{\"ph\":\"";
    text_ += phase;
    text_ += "\",\"pid\":" + std::to_string(process) + ",\"tid\":" + std::to_string(thread);
  }

  void Key(std::string_view key) {
    text_ += ",\"";
    text_ += key;
    text_ += "\":";
  }

  void Name(std::string_view name) {
    Key("name");
    AppendQuoted(text_, name);
  }

  void Time(std::int64_t time_ns) {
    Key("ts");
    AppendMicroseconds(text_, time_ns + run_->shift_ns);
  }

  // The format has microseconds; decimals keep the nanoseconds.
  void Times(std::int64_t start_ns, std::int64_t end_ns) {
    Time(start_ns);
    Key("dur");
    AppendMicroseconds(text_, end_ns - start_ns);
  }

  // Names a process or thread and sets its position among its siblings.
  void AddTitle(std::string_view what, int process, int thread, std::string_view title, int place) {
    Open('M', process, thread);
    Key("name");
    text_ += '"';
    text_ += what;
    text_ += "_name\",\"args\":{\"name\":";
    AppendQuoted(text_, title);
    text_ += "}}";
    Open('M', process, thread);
    Key("name");
    text_ += '"';
    text_ += what;
    text_ += "_sort_index\",\"args\":{\"sort_index\":" + std::to_string(place) + "}}";
  }

  // Process id of a rank of this run. The first use writes its title, so that ranks without spans
  // or samples leave no empty process.
  int ProcessOf(std::int16_t rank) {
    const auto [at, is_new] = processes_.try_emplace(rank);
    if (is_new) {
      at->second.id = ++last_process_;
      AddTitle("process", at->second.id, 0, run_->title + " rank " + std::to_string(rank),
               at->second.id);
      if (run_->shift_ns != 0) {
        Open('M', at->second.id, 0);
        Name("shift");
        text_ += ",\"args\":{\"ns\":" + std::to_string(run_->shift_ns) + "}}";
      }
    }
    return at->second.id;
  }

  // Written before the thread's first event, as readers of our exports need it. The thread's number
  // also gives its position: the threads of a queue stand together.
  void TitleThread(std::int16_t rank, int thread, std::string_view title) {
    if (!processes_[rank].titled.insert(thread).second) return;
    const int lane = thread / kLaneDistance;
    AddTitle("thread", processes_[rank].id, thread,
             lane == 0 ? std::string(title) : std::string(title) + " " + std::to_string(lane + 1),
             thread % kLaneDistance * kLaneDistance + lane);
  }

  // The thread of a span: the first of its queue's that is free. Spans come by start.
  int ThreadOf(const Span& span) {
    std::vector<std::int64_t>& ends =
        processes_[span.rank].ends[static_cast<std::size_t>(span.queue)];
    const auto free = std::find_if(
        ends.begin(), ends.end(), [&span](std::int64_t end_ns) { return end_ns <= span.start_ns; });
    const auto lane = static_cast<int>(free - ends.begin());
    if (free == ends.end()) {
      ends.push_back(span.end_ns);
    } else {
      *free = span.end_ns;
    }
    return static_cast<int>(span.queue) + kLaneDistance * lane;
  }

  // Display name of an op: the recorded name of its block, else a description of its id.
  std::string NameOf(OpId op, OpClass op_class) const {
    if (op == kNoOp) return std::string(foretrain::Name(op_class));
    const auto at = timeline_->op_names.find(NameKey(op));
    return at != timeline_->op_names.end() ? at->second : DescribeOp(op);
  }

  std::string DescribeOp(OpId op) const {
    return run_->layers.has_value() ? Describe(op, *run_->layers) : Describe(op);
  }

  // Ids are written as text: JavaScript numbers are exact to 2^53 only, and ids have 63 bits.
  Result<void> AddSpan(const Span& span) {
    const int process = ProcessOf(span.rank);
    const int thread = ThreadOf(span);
    TitleThread(span.rank, thread, foretrain::Name(span.queue));
    Open('X', process, thread);
    Times(span.start_ns, span.end_ns);
    Name(NameOf(span.op, span.op_class));
    Key("cat");
    AppendQuoted(text_, foretrain::Name(span.op_class));
    text_ += ",\"args\":{\"step\":" + std::to_string(span.step);
    if (span.op != kNoOp) {
      Key("id");
      AppendQuoted(text_, std::to_string(span.op));
      Key("op");
      AppendQuoted(text_, DescribeOp(span.op));
    }
    if (span.bytes != 0) {
      Key("bytes");
      text_ += std::to_string(span.bytes);
    }
    if (span.start_ns > span.ready_ns) {
      Key("wait_us");
      AppendMicroseconds(text_, span.start_ns - span.ready_ns);
    }
    AddKernels(span);
    text_ += "}}";
    flows_.Add(span,
               {process, thread, span.start_ns + run_->shift_ns, span.end_ns + run_->shift_ns});
    return FlushIfFull();
  }

  // An op's text is made once for all its spans.
  void AddKernels(const Span& span) {
    if (run_->kernels == nullptr || span.queue == Queue::kHost || span.op == kNoOp) return;
    const auto [text, is_new] = kernels_.try_emplace(NameKey(span.op));
    if (is_new) text->second = KernelsText(span.op);
    if (text->second.empty()) return;
    Key("kernels");
    text_ += text->second;
  }

  // Occupancy is a fraction, as everywhere.
  std::string KernelsText(OpId op) const {
    const std::vector<const KernelRow*> rows = run_->kernels->Of(op);
    if (rows.empty()) return {};
    JsonWriter json;
    json.BeginArray();
    for (const KernelRow* row : rows) {
      json.BeginObject().Field("name", row->name);
      WriteLaunch(json, row->launch);
      const auto occupancy = TheoreticalOccupancy(row->launch, run_->kernels->capability);
      if (occupancy) json.Field("occupancy", occupancy->share);
      json.EndObject();
    }
    return json.EndArray().Take();
  }

  // A flow belongs to the slice that encloses its time on its thread.
  Result<void> AddFlow(const TraceFlow& flow) {
    ++last_flow_;
    AddFlowEnd('s', flow.name, flow.from);
    AddFlowEnd('f', flow.name, flow.to);
    return FlushIfFull();
  }

  void AddFlowEnd(char phase, std::string_view name, const FlowEnd& end) {
    Open(phase, end.process, end.thread);
    Key("ts");
    AppendMicroseconds(text_, end.start_ns);
    Name(name);
    Key("cat");
    AppendQuoted(text_, name);
    text_ += ",\"id\":" + std::to_string(last_flow_);
    text_ += phase == 'f' ? ",\"bp\":\"e\"}" : "}";
  }

  // Counters of the whole job stand with the first rank. Those of a step without a time stand at
  // its end.
  Result<void> AddCounters() {
    std::map<std::int32_t, std::int64_t> ends_ns;  // of steps
    for (const StepWindow& step : timeline_->steps) {
      std::int64_t& end_ns = ends_ns.try_emplace(step.step, step.end_ns).first->second;
      end_ns = std::max(end_ns, step.end_ns);
    }
    for (const Counter& counter : run_->counters) {
      const auto rank = static_cast<std::int16_t>(counter.rank);
      const auto step = ends_ns.find(counter.step);
      const bool of_step = counter.time_ns == 0 && counter.step >= 0;
      if (processes_.empty() || (counter.rank >= 0 && !processes_.contains(rank)) ||
          (of_step && step == ends_ns.end()) || !std::isfinite(counter.value)) {
        continue;
      }
      Open('C', counter.rank >= 0 ? processes_[rank].id : processes_.begin()->second.id, 0);
      Time(of_step ? step->second : counter.time_ns);
      Name(counter.name);
      text_ += ",\"args\":{\"value\":" + NumberText(counter.value) + "}}";
      FT_TRY(FlushIfFull());
    }
    return {};
  }

  // Step windows have a thread of their own below the queues.
  Result<void> AddStep(const StepWindow& window) {
    const int process = ProcessOf(window.rank);
    TitleThread(window.rank, kStepThread, "steps");
    Open('X', process, kStepThread);
    Times(window.start_ns, window.end_ns);
    Name("step " + std::to_string(window.step));
    Key("cat");
    text_ += "\"step\"}";
    return FlushIfFull();
  }

  // A sample changes one category; a counter event must list all of its space. `live` keeps the
  // current bytes by category, and one event a moment is written for each space that changed in it.
  Result<void> AddMemory() {
    using Live = std::array<std::map<Category, std::int64_t>, kSpaceCount>;
    const std::vector<MemorySample>& samples = timeline_->memory;
    Live live;
    std::array<bool, kSpaceCount> changed{};
    for (std::size_t i = 0; i < samples.size(); ++i) {
      const MemorySample& sample = samples[i];
      if (i == 0 || samples[i - 1].rank != sample.rank) live = {};
      live[static_cast<std::size_t>(sample.space)][sample.category] = sample.bytes;
      changed[static_cast<std::size_t>(sample.space)] = true;
      const bool last_of_moment = i + 1 == samples.size() ||
                                  samples[i + 1].time_ns != sample.time_ns ||
                                  samples[i + 1].rank != sample.rank;
      if (!last_of_moment) continue;
      for (std::size_t space = 0; space < live.size(); ++space) {
        if (changed[space]) AddCounter(sample, static_cast<Space>(space), live[space]);
      }
      changed = {};
      FT_TRY(FlushIfFull());
    }
    return {};
  }

  // One counter event lists all categories; the viewer stacks them.
  void AddCounter(const MemorySample& at, Space space,
                  const std::map<Category, std::int64_t>& bytes) {
    Open('C', ProcessOf(at.rank), 0);
    Time(at.time_ns);
    Name(std::string(foretrain::Name(space)) + " memory");
    text_ += ",\"args\":{";
    bool first = true;
    for (const auto& [category, live] : bytes) {
      if (!first) text_ += ',';
      first = false;
      AppendQuoted(text_, foretrain::Name(category));
      text_ += ':' + std::to_string(live);
    }
    text_ += "}}";
  }

  Result<void> FlushIfFull() { return text_.size() < kFlushBytes ? Result<void>() : Flush(); }

  // The string keeps its capacity, so memory is allocated once.
  Result<void> Flush() {
    FT_TRY(sink_(text_));
    text_.clear();
    return {};
  }

  struct Process {
    int id = 0;
    std::set<int> titled{};                                     // threads
    std::array<std::vector<std::int64_t>, kQueueCount> ends{};  // of each queue's threads
  };

  TextSink sink_;
  std::string text_;
  bool first_ = true;
  int last_process_ = 0;
  std::int64_t last_flow_ = 0;
  TraceFlows flows_;
  std::map<std::int16_t, Process> processes_;  // of the current run
  std::map<OpId, std::string> kernels_;        // by NameKey, as JSON; empty: none
  const ChromeRun* run_ = nullptr;             // set while AddRun runs, as is timeline_
  const Timeline* timeline_ = nullptr;
};

ChromeTraceWriter::ChromeTraceWriter(TextSink sink)
    : writer_(std::make_unique<Writer>(std::move(sink))) {}
ChromeTraceWriter::~ChromeTraceWriter() = default;

Result<void> ChromeTraceWriter::Begin() { return writer_->Begin(); }

Result<void> ChromeTraceWriter::AddRun(const Timeline& timeline, const ChromeRun& run) {
  return writer_->AddRun(timeline, run);
}

Result<void> ChromeTraceWriter::End() { return writer_->End(); }

namespace {

// The title by which own_trace.h recognizes the run again.
std::string TitleOf(const RunInfo& info) {
  std::string title = std::string(Name(info.kind)) + " " + std::to_string(info.id);
  if (!info.label.empty()) title += " (" + info.label + ")";
  return title;
}

}  // namespace

Result<void> WriteChromeTrace(std::span<const StoredChromeRun> runs, FileSystem& files,
                              const std::string& path) {
  return ReplaceFile(files, path, [&](WritableFile& file) -> Result<void> {
    ChromeTraceWriter writer([&file](std::string_view text) {
      return file.Append(std::as_bytes(std::span(text.data(), text.size())));
    });
    FT_TRY(writer.Begin());
    for (const StoredChromeRun& stored : runs) {
      ChromeRun how = stored.how;
      how.title = TitleOf(stored.run->info);
      how.kernels = &stored.run->kernels;
      how.counters = stored.run->counters;
      FT_TRY(writer.AddRun(stored.run->timeline, how));
    }
    return writer.End();
  });
}

}  // namespace foretrain

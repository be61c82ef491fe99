#include "traces/import/import.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <set>
#include <utility>

#include "base/json/json.h"
#include "base/text.h"
#include "traces/import/byte_source.h"
#include "traces/import/chakra/chakra_trace.h"
#include "traces/import/file_type.h"
#include "traces/import/kineto/json_events.h"
#include "traces/import/kineto/kineto.h"
#include "traces/import/memory/snapshot.h"
#include "traces/import/nsys.h"
#include "traces/import/own_trace.h"
#include "traces/import/rank_timeline.h"
#include "traces/import/ranks/rank_join.h"
#include "traces/import/ranks/traced_groups.h"

namespace foretrain {
namespace {

using namespace trace_import;

// Bounds memory: at 150 bytes an event, 10 GB.
constexpr std::int64_t kMaxEvents = std::int64_t{1} << 26;
constexpr std::int64_t kMaxPatternBytes = std::int64_t{1} << 20;

// The last part of a path, safe to print.
std::string FileName(const std::string& path) {
  return Printable(std::filesystem::path(path).filename().string(), 200);
}

// Contents of all files, before ranks are numbered. `own_invalid` counts events of our own exports
// that could not be read. `events` counts all events, also those that are not used.
struct ReadFiles {
  std::vector<RankEvents> ranks;
  std::vector<OwnRun> own;
  std::vector<std::string> notes;
  std::int64_t own_invalid = 0;
  std::int64_t events = 0;
};

// Reads the files one after another into ReadFiles. Each event of a JSON file is offered to the
// reader of our own exports first; the rest goes to Kineto's.
class FileReader {
 public:
  FileReader(FileSystem& files, const ImportOptions& options) : files_(files), options_(options) {}

  Result<void> Add(const std::string& path) {
    FT_ASSIGN(const FileType type, TypeOf(files_, path));
    const std::string where = Printable(path, 512);
    switch (type) {
      case FileType::kText:
        return AddJson(path);
      case FileType::kDatabase:
        return AddNsys(path);
      case FileType::kPickle:
        return AddSnapshot(path);
      case FileType::kChakra:
        return AddChakra(path);
      case FileType::kStore:
        return Fail(ErrorCode::kInvalidArgument,
                    where + ": a store of foretrain; open it: `foretrain view " + where + "`");
      case FileType::kNsightReport:
        return Fail(ErrorCode::kUnsupported,
                    where +
                        ": a report of Nsight Systems; import its database: `nsys export --type "
                        "sqlite " +
                        where + "`");
      default:
        return Fail(ErrorCode::kCorruptInput,
                    where +
                        ": neither JSON (plain or gzip), nor a database of Nsight Systems, nor a "
                        "memory snapshot of PyTorch, nor an execution trace of Chakra (.et)");
    }
  }

  ReadFiles Take() { return std::move(out_); }

 private:
  // False if the user stopped the import.
  bool Tell(const std::string& path, std::int64_t read, std::int64_t all) const {
    if (!options_.progress) return true;
    const double share = all > 0 ? static_cast<double>(read) / static_cast<double>(all) : 1.0;
    return options_.progress({"reading " + FileName(path), std::clamp(share, 0.0, 1.0)});
  }

  // One pass over the text. The number of events is bounded over all files together, since each one
  // costs about 150 bytes.
  Result<void> AddJson(const std::string& path) {
    FT_ASSIGN(const std::unique_ptr<ByteSource> source, OpenBytes(files_, path));
    KinetoReader kineto;
    OwnTraceReader own;
    bool too_many = false;
    const JsonSinks sinks{
        .event =
            [&](const JsonEvent& event) {
              too_many = ++out_.events > kMaxEvents;
              if (!too_many && !own.Take(event)) kineto.Take(event);
            },
        .note = [&kineto](const JsonNote& note) { kineto.Take(note); },
        .go_on = [&](std::int64_t read,
                     std::int64_t all) { return !too_many && Tell(path, read, all); }};
    const Result<JsonReading> reading = ReadJsonEvents(*source, path, sinks);
    if (too_many) {
      return Fail(ErrorCode::kResourceExhausted, Printable(path, 512) + ": more than " +
                                                     std::to_string(kMaxEvents) +
                                                     " events in all; import fewer ranks or steps");
    }
    if (!reading.has_value()) return Fail(reading.error().code, reading.error().message);
    if (reading->cut_at.has_value()) {
      out_.notes.push_back(FileName(path) + " ends too early, at byte " +
                           std::to_string(*reading->cut_at) + ": its writer was stopped; the " +
                           std::to_string(reading->events) + " events before it were imported");
    }
    std::vector<OwnRun> runs = own.Finish();
    out_.own_invalid += own.invalid();
    if (runs.empty()) {
      out_.ranks.push_back(kineto.Finish());
      out_.ranks.back().source = FileName(path);
    }
    for (OwnRun& run : runs) out_.own.push_back(std::move(run));
    return {};
  }

  // Each process of the export becomes a rank.
  Result<void> AddNsys(const std::string& path) {
    if (!Tell(path, 0, 1)) return Fail(ErrorCode::kAborted, "the import was stopped");
    FT_ASSIGN(std::vector<RankEvents> processes, ReadNsys(path, [&] { return Tell(path, 0, 1); }));
    for (RankEvents& process : processes) {
      out_.events += std::ssize(process.events);
      process.source = FileName(path) + ", " + process.source;
      out_.ranks.push_back(std::move(process));
    }
    return {};
  }

  // Each device of the snapshot becomes a rank.
  Result<void> AddSnapshot(const std::string& path) {
    FT_ASSIGN(const std::unique_ptr<ByteSource> source, OpenBytes(files_, path));
    const auto go_on = [&] { return Tell(path, source->file_bytes_read(), source->file_bytes()); };
    FT_ASSIGN(std::vector<RankEvents> devices, ReadSnapshot(*source, path, go_on));
    for (RankEvents& device : devices) {
      out_.events += std::ssize(device.memory);
      device.source = FileName(path) + ", " + device.source;
      out_.ranks.push_back(std::move(device));
    }
    return {};
  }

  Result<void> AddChakra(const std::string& path) {
    FT_ASSIGN(const std::unique_ptr<ByteSource> source, OpenBytes(files_, path));
    FT_ASSIGN(RankEvents rank, ReadChakraTrace(*source, path, [&] {
                return Tell(path, source->file_bytes_read(), source->file_bytes());
              }));
    out_.events += std::ssize(rank.events);
    rank.source = FileName(path);
    out_.ranks.push_back(std::move(rank));
    return {};
  }

  FileSystem& files_;
  const ImportOptions& options_;
  ReadFiles out_;
};

// Describes in the run's details how streams and threads were mapped to queues.
void WriteRank(JsonWriter& json, int number, const RankEvents& rank, const RankTimeline& made) {
  json.BeginObject().Field("rank", number).Field("source", rank.source);
  json.Name("devices").BeginArray();
  for (const RawDevice& device : rank.devices) {
    json.BeginObject().Field("id", device.id).Field("name", Printable(device.name));
    json.Field("memory_bytes", device.memory_bytes).EndObject();
  }
  json.EndArray().Name("queues").BeginArray();
  for (const QueueUse& use : made.queues) {
    json.BeginObject().Field("process", Printable(use.process));
    json.Field("thread", Printable(use.thread)).Field("queue", Name(use.queue));
    json.Field("spans", use.spans).EndObject();
  }
  json.EndArray().EndObject();
}

void WritePipelines(JsonWriter& json, const std::vector<Pipeline>& pipelines) {
  if (pipelines.empty()) return;
  json.Name("pipelines").BeginArray();
  for (const Pipeline& pipeline : pipelines) {
    json.BeginArray();
    for (const int rank : pipeline) json.Integer(rank);
    json.EndArray();
  }
  json.EndArray();
}

// Adds a note for each assumption made and each thing missing, to be shown with the run.
void AddNotes(const std::vector<RankEvents>& ranks, const std::vector<int>& numbers,
              TraceRun& run) {
  std::int64_t unclosed = 0;
  bool memory = false, device = false, groups = true, events = false, purposes = false;
  for (const RankEvents& rank : ranks) {
    unclosed += rank.unclosed;
    memory = memory || !rank.memory.empty();
    events = events || !rank.events.empty();
    purposes = purposes || !rank.held.empty();
    device = device || rank.HasDevice();
    run.totals.invalid += rank.invalid;
  }
  for (const Span& span : run.timeline.spans) groups = groups && span.op_class != OpClass::kDpComm;
  if (unclosed > 0) {
    run.notes.push_back(std::to_string(unclosed) +
                        " events were begun and never ended: they end with the trace");
  }
  if (purposes) {
    std::vector<HeldOfRank> held;
    for (std::size_t i = 0; i < ranks.size(); ++i) held.push_back({numbers[i], ranks[i].held});
    run.attachments.emplace(kHeldAttachment, HeldToJson(held));
  }
  if (!device && events && !purposes) {
    run.notes.push_back("no device in the trace: the host's ops are shown as the compute");
    if (memory) run.notes.push_back("memory counts from the trace's beginning");
  }
  if (purposes) {
    run.notes.push_back(
        "the purpose of memory is told from stacks (traces/import/memory/memory_frames.csv); "
        "allocations without one are shown as workspace");
  } else if (memory) {
    run.notes.push_back(
        "the trace says how much memory is allocated, not what for: all of it is shown as "
        "workspace");
  }
  if (!groups) {
    run.notes.push_back(
        "collectives whose group the trace does not say are shown as those of data parallelism");
  }
}

Result<OpTable> TableOf(FileSystem& files, const std::string& patterns) {
  if (patterns.empty()) return OpTable();
  FT_ASSIGN(const std::string text, ReadFile(files, patterns, kMaxPatternBytes));
  return OpTable::With(text, patterns);
}

// Builds one run whose ranks are the files. Ops without an id get one from OpIds, shared by all
// ranks, so that the same name means the same op on each.
Result<TraceRun> MakeRun(std::vector<RankEvents> ranks, std::vector<std::string> notes,
                         const OpTable& table, const ImportOptions& options) {
  TraceRun run;
  run.notes = std::move(notes);
  FT_ASSIGN(const std::vector<int> numbers, NumberRanks(ranks, run.notes));
  const std::vector<std::int64_t> offsets = OffsetsOf(ranks, run.notes);
  OpIds ids;
  JsonWriter details;
  details.BeginObject().Field("imported", true).Name("ranks").BeginArray();
  std::vector<RankTimeline> timelines;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    timelines.push_back(TimelineOfRank(
        ranks[i], table,
        {.rank = numbers[i], .offset_ns = offsets[i], .step_name = options.step_name}, ids));
    WriteRank(details, numbers[i], ranks[i], timelines.back());
  }
  const bool all_matched = JoinRanks(numbers, timelines, run.notes);
  run.communication = CommunicationOf(ranks, table, timelines);
  std::set<std::string> said;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const RankTimeline made = std::move(timelines[i]);
    Timeline& timeline = run.timeline;
    timeline.world = std::max({timeline.world, numbers[i] + 1, ranks[i].world.value_or(0)});
    timeline.spans.insert(timeline.spans.end(), made.spans.begin(), made.spans.end());
    timeline.steps.insert(timeline.steps.end(), made.steps.begin(), made.steps.end());
    timeline.memory.insert(timeline.memory.end(), made.memory.begin(), made.memory.end());
    run.kernels.Add(made.kernels);
    const auto say = [&](const std::vector<std::string>& of_rank) {
      for (const std::string& note : of_rank) {
        if (said.insert(note).second) run.notes.push_back(note);
      }
    };
    say(ranks[i].notes);
    say(made.notes);
  }
  WritePipelines(details.EndArray(), PipelinesOfGroups(ranks, table));
  if (all_matched) details.Field("communication_matched", true);
  run.details_json = details.EndObject().Take();
  run.kernels.capability = CapabilityOf(ranks);
  run.kernels.gpu = GpuOf(ranks);
  run.recorded_ranks = static_cast<int>(ranks.size());
  run.timeline.op_names = ids.TakeNames();
  AddNotes(ranks, numbers, run);
  SortTimeline(run.timeline);
  return run;
}

// A run of our own export keeps its ids and step windows; only windows that are missing are
// derived.
TraceRun RunOf(OwnRun own) {
  TraceRun run{.label = std::move(own.title), .timeline = std::move(own.timeline)};
  std::set<int> ranks;
  for (const Span& span : run.timeline.spans) ranks.insert(span.rank);
  run.recorded_ranks = static_cast<int>(ranks.size());
  run.own = true;
  run.details_json = "{\"imported\":true,\"exported_by\":\"foretrain\"}";
  DeriveSteps(run.timeline);
  return run;
}

}  // namespace

// Own runs and the combined run of all other files may both come from one call. Notes go to the
// combined run if there is one.
Result<std::vector<TraceRun>> ReadTraces(FileSystem& files, std::span<const std::string> paths,
                                         const ImportOptions& options) {
  FT_ASSIGN(const OpTable table, TableOf(files, options.patterns));
  FileReader reader(files, options);
  std::string names;
  for (const std::string& path : paths) {
    FT_TRY(reader.Add(path));
    if (names.size() < 200) names += (names.empty() ? "" : ", ") + FileName(path);
  }
  ReadFiles read = reader.Take();
  for (RankEvents& rank : read.ranks) DropFar(rank);
  std::erase_if(read.ranks,
                [](const RankEvents& rank) { return rank.events.empty() && rank.memory.empty(); });
  if (read.ranks.empty() && read.own.empty()) {
    return Fail(ErrorCode::kInvalidArgument,
                names + ": a trace of " + std::to_string(read.events) +
                    " events, none of which is a kernel, a copy, an op or an annotation; was the "
                    "profiler running?");
  }
  std::vector<TraceRun> runs;
  for (OwnRun& own : read.own) {
    runs.push_back(RunOf(std::move(own)));
    runs.back().totals.invalid = std::exchange(read.own_invalid, 0);
    if (read.ranks.empty()) runs.back().notes = read.notes;
  }
  if (!read.ranks.empty()) {
    FT_ASSIGN(TraceRun run, MakeRun(std::move(read.ranks), std::move(read.notes), table, options));
    run.label = names;
    runs.push_back(std::move(run));
  }
  for (TraceRun& run : runs) {
    if (!options.label.empty()) run.label = options.label;
  }
  return runs;
}

// Writes the run in one go. A failure leaves a run in the store that is not shown as finished.
Result<ImportedRun> StoreTrace(Store& store, TraceRun run, const ImportOptions& options) {
  ImportedRun out{.label = run.label, .ranks = run.recorded_ranks, .totals = run.totals};
  out.spans = std::ssize(run.timeline.spans);
  std::set<std::int32_t> steps;
  for (const StepWindow& window : run.timeline.steps) steps.insert(window.step);
  out.steps = std::ssize(steps);
  out.notes = run.notes;
  if (options.progress && !options.progress({"storing " + run.label, 0.0})) {
    return Fail(ErrorCode::kAborted, "the import was stopped");
  }
  RunSetup setup{
      .kind = RunKind::kImported, .label = run.label, .world = std::max(1, run.timeline.world)};
  setup.forecast = options.forecast;
  std::vector<Pipeline> pipelines = PipelinesIn(run.details_json);
  setup.details_json = std::move(run.details_json);
  FT_ASSIGN(const std::unique_ptr<RunRecorder> recorder, store.BeginRun(setup));
  out.id = recorder->id();
  const Metrics metrics = ComputeMetrics(run.timeline, {.pipelines = std::move(pipelines)});
  FT_TRY(recorder->AddTimeline(std::move(run.timeline)));
  FT_TRY(recorder->AddMetrics(Flatten(metrics)));
  FT_TRY(recorder->AddTotals(run.totals));
  if (!run.kernels.rows.empty()) {
    FT_TRY(recorder->Attach(kKernelsAttachment, KernelsToJson(run.kernels)));
  }
  for (const std::string& note : run.notes) FT_TRY(recorder->AddNote(note));
  for (const auto& [name, bytes] : run.attachments) FT_TRY(recorder->Attach(name, bytes));
  FT_TRY(recorder->Finish(RunStatus::kFinished));
  return out;
}

Result<bool> LooksLikeTrace(FileSystem& files, const std::string& path) {
  FT_ASSIGN(const FileType type, TypeOf(files, path));
  if (type == FileType::kDatabase) return IsNsightExport(path);
  return type == FileType::kText || type == FileType::kNsightReport || type == FileType::kPickle ||
         type == FileType::kChakra;
}

}  // namespace foretrain

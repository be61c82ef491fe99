#include "ui/view_model/timeline/step_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/units.h"
#include "sim/memory/peak_memory.h"
#include "sim/program/lower/layout/stage.h"

namespace foretrain::ui {
namespace {

std::size_t At(std::int64_t index) { return static_cast<std::size_t>(index); }

// Index of a pass in slot_of_; recomputation belongs to the slot of its backward. -1: no slot.
int PassNumber(Pass pass) {
  switch (pass) {
    case Pass::kForward:
      return 0;
    case Pass::kBackward:
    case Pass::kBackwardInput:
    case Pass::kRecompute:
      return 1;
    case Pass::kBackwardWeight:
      return 2;
    default:
      return -1;
  }
}

// Maps the instructions of a rank's memory walk to its slots.
class MemoryOverSlots {
 public:
  MemoryOverSlots(const Stage& stage, int micro_batches, const std::vector<SlotSpan>& slots)
      : stage_(stage), micro_batches_(micro_batches), slots_(slots) {
    slot_of_.assign(stage.chunks.size() * 3 * At(micro_batches), -1);
    for (std::size_t i = 0; i < slots.size(); ++i) {
      const foretrain::Slot& slot = slots[i].slot;
      const std::size_t key = Key(slot.chunk, PassNumber(slot.pass), slot.micro_batch);
      if (key < slot_of_.size()) slot_of_[key] = static_cast<std::int32_t>(i);
    }
  }

  // Slot of an instruction; -1 if it belongs to none.
  std::int32_t SlotOf(const InstructionKey& key) const {
    const int pass = key.kind == InstructionKind::kBlock ? PassNumber(key.pass) : -1;
    if (pass < 0 || key.micro_batch >= micro_batches_) return -1;
    const auto chunk = &stage_.ChunkOf(key.block) - stage_.chunks.data();
    return slot_of_[Key(static_cast<int>(chunk), pass, key.micro_batch)];
  }

  // Start and end of each moment in seconds, in order. The instructions of a slot share its time
  // evenly, because the memory walk has no times.
  std::vector<std::pair<double, double>> TimesOf(const std::vector<MemoryMoment>& moments,
                                                 double end_s) const {
    std::vector<std::int32_t> of(moments.size());
    std::vector<int> count(slots_.size(), 0), seen(slots_.size(), 0);
    std::size_t last = 0;
    for (std::size_t i = 0; i < moments.size(); ++i) {
      of[i] = SlotOf(moments[i].key);
      if (of[i] < 0) continue;
      ++count[At(of[i])];
      last = i;
    }
    std::vector<std::pair<double, double>> times;
    // Moments are in order; one without a slot takes no time, except at the end of the step.
    double now_s = 0;
    for (std::size_t i = 0; i < moments.size(); ++i) {
      double start_s = now_s, stop_s = now_s;
      if (of[i] >= 0) {
        const SlotSpan& slot = slots_[At(of[i])];
        const double part_s = (slot.end_s - slot.start_s) / count[At(of[i])];
        start_s = std::max(now_s, slot.start_s + part_s * seen[At(of[i])]++);
        stop_s = std::max(start_s, slot.start_s + part_s * seen[At(of[i])]);
      } else if (i > last && i + 1 < moments.size()) {  // reduction and update
        stop_s = now_s + (end_s - now_s) / static_cast<double>(moments.size() - i);
      }
      times.emplace_back(start_s, stop_s);
      now_s = stop_s;
    }
    return times;
  }

 private:
  std::size_t Key(int chunk, int pass, int micro_batch) const {
    return (At(chunk) * 3 + At(pass)) * At(micro_batches_) + At(micro_batch);
  }

  const Stage& stage_;
  int micro_batches_;
  const std::vector<SlotSpan>& slots_;
  std::vector<std::int32_t> slot_of_;
};

// Adds a sample for each category that changed.
void AddSamples(double time_s, int rank, const CategoryBytes& bytes, CategoryBytes& shown,
                std::vector<MemorySample>& samples) {
  for (std::size_t c = 0; c < bytes.size(); ++c) {
    if (bytes[c] == shown[c]) continue;
    samples.push_back({NsFromSeconds(time_s), bytes[c], static_cast<std::int16_t>(rank),
                       static_cast<Category>(c), Space::kDevice});
  }
  shown = bytes;
}

// Each moment gives two samples: its fullest state when it starts and the state it leaves when it
// ends.
void AddMemory(const ModelSpec& model, const PassForecast& forecast, const Stage& stage, int pp,
               Timeline& timeline) {
  MemoryWalk walk;
  PlannedPeak(model, forecast.plan, {.pp = pp}, Space::kDevice, &walk);
  const MemoryOverSlots order(stage, static_cast<int>(forecast.plan.MicroBatches()),
                              forecast.passes.slots.spans[At(pp)]);
  const auto times = order.TimesOf(walk.moments, forecast.step_s);
  CategoryBytes shown{};
  AddSamples(0, pp, walk.state, shown, timeline.memory);
  for (std::size_t i = 0; i < walk.moments.size(); ++i) {
    AddSamples(times[i].first, pp, walk.moments[i].fullest, shown, timeline.memory);
    AddSamples(times[i].second, pp, walk.moments[i].after, shown, timeline.memory);
  }
}

Span SpanOf(double start_s, double end_s, const InstructionKey& key, int rank, Queue queue,
            OpClass op_class) {
  Span span;
  span.start_ns = NsFromSeconds(start_s);
  span.end_ns = std::max(span.start_ns, NsFromSeconds(end_s));
  span.op = PackId(key);
  span.rank = static_cast<std::int16_t>(rank);
  span.queue = queue;
  span.op_class = op_class;
  return span;
}

// One span per slot, then reduction and update after the last slot.
void AddRank(const PassForecast& forecast, const Stage& stage, int pp, Timeline& timeline) {
  double last_s = 0;
  for (const SlotSpan& slot : forecast.passes.slots.spans[At(pp)]) {
    const InstructionKey key{InstructionKind::kBlock, slot.slot.pass,
                             stage.chunks[At(slot.slot.chunk)].first_block, slot.slot.micro_batch,
                             0};
    timeline.spans.push_back(
        SpanOf(slot.start_s, slot.end_s, key, pp, Queue::kCompute, OpClass::kGemm));
    timeline.spans.back().ready_ns = NsFromSeconds(slot.ready_s);
    last_s = std::max(last_s, slot.end_s);
  }
  const RankEnd& end = forecast.ends[At(pp)];
  const double update_s = last_s + end.sums_s;
  if (end.update_s > 0) {
    timeline.spans.push_back(SpanOf(update_s, update_s + end.update_s,
                                    {InstructionKind::kOptimizerStep, Pass::kUpdate}, pp,
                                    Queue::kCompute, OpClass::kMemoryBound));
  }
  if (end.sums_s > 0) {
    timeline.spans.push_back(SpanOf(last_s, update_s, {InstructionKind::kAllReduce, Pass::kUpdate},
                                    pp, Queue::kReduce, OpClass::kDpComm));
  }
  timeline.steps.push_back({0, NsFromSeconds(forecast.step_s), 0, static_cast<std::int16_t>(pp)});
}

// "layers 4-6" for consecutive layers; only their number if the rank has several chunks.
std::string LayersText(const ModelSpec& model, const Plan& plan, int pp) {
  const Stage stage = StageOf(model, plan, pp);
  int first = 0, layers = 0;
  for (const int block : stage.blocks) {
    if (block == 0 || block > stage.layers) continue;
    if (first == 0) first = block;
    ++layers;
  }
  if (layers == 0) return "no layers";
  if (stage.chunks.size() > 1) return fmt::format("{} layers", layers);
  return layers == 1 ? fmt::format("layer {}", first)
                     : fmt::format("layers {}-{}", first, first + layers - 1);
}

// Builds the compare model of a single forecast, with stages instead of ranks and without notices
// about a comparison.
void FillModel(const ModelSpec& model, const Plan& plan, const CompareFacts& facts,
               StepPicture& picture) {
  picture.model = BuildCompareModel(picture.input, facts, {});
  picture.model.notices.clear();
  for (std::size_t i = 0; i < picture.model.lanes.size(); ++i) {
    Lane& lane = picture.model.lanes[i];
    const int pp = i < picture.stages.size() ? picture.stages[i] : lane.rank;
    lane.name = fmt::format("stage {}", pp);
    lane.detail = LayersText(model, plan, pp);
  }
}

}  // namespace

// Reserves first: a step may have millions of passes.
Timeline TimelineOf(const ModelSpec& model, const PassForecast& forecast, int memory_pp) {
  Timeline timeline;
  timeline.world = forecast.plan.pp;
  std::size_t spans = 0;
  for (const auto& rank : forecast.passes.slots.spans) spans += rank.size() + 2;
  timeline.spans.reserve(spans);
  for (int pp = 0; pp < forecast.plan.pp; ++pp) {
    const Stage stage = StageOf(model, forecast.plan, pp);
    AddRank(forecast, stage, pp, timeline);
    if (pp == memory_pp) AddMemory(model, forecast, stage, pp, timeline);
  }
  SortTimeline(timeline);
  return timeline;
}

std::shared_ptr<const StepPicture> PictureOf(const ModelSpec& model, const PassForecast& forecast,
                                             int memory_pp, std::int64_t device_bytes,
                                             std::string label) {
  auto picture = std::make_shared<StepPicture>();
  RunView run;
  run.timeline = TimelineOf(model, forecast, memory_pp);
  run.label = std::move(label);
  run.layers = static_cast<int>(model.AllLayers());
  run.device_bytes = device_bytes;
  for (int pp = 0; pp < forecast.plan.pp; ++pp) picture->stages.push_back(pp);
  // The metrics are the forecast's own; the model only takes the step's number from here.
  auto metrics = std::make_shared<Metrics>();
  StepMetrics overall;
  overall.time_s = forecast.step_s;
  overall.bubble = forecast.bubble;
  metrics->overall = overall;
  picture->input.predicted = std::move(run);
  FillModel(model, forecast.plan, CompareFacts{{std::move(metrics), nullptr}}, *picture);
  return picture;
}

// All steps but the last count as warm-up, so that the model selects the last one.
std::shared_ptr<const StepPicture> PictureOf(const ModelSpec& model, Forecast forecast,
                                             std::int64_t device_bytes, std::string label) {
  auto picture = std::make_shared<StepPicture>();
  RunView run;
  run.label = std::move(label);
  run.layers = static_cast<int>(model.AllLayers());
  run.device_bytes = device_bytes;
  run.metrics.warmup_steps = forecast.simulation.steps - 1;
  run.timeline = std::move(forecast.simulation.timeline);
  for (const RankProgram& rank : forecast.program.ranks) picture->stages.push_back(rank.pp);
  picture->input.predicted = std::move(run);
  const CompareFacts facts = FactsOf(picture->input);
  FillModel(model, forecast.program.plan, facts, *picture);
  return picture;
}

}  // namespace foretrain::ui

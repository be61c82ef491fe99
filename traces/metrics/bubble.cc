#include "traces/metrics/bubble.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <map>
#include <utility>

#include "base/json/json.h"
#include "base/result.h"
#include "traces/metrics/classes.h"
#include "traces/metrics/intervals.h"

namespace foretrain {
namespace {

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

// Work of a stage: its passes with their tensor, context and expert parallel collectives. Pipeline
// transfers, updates and host launches are not work.
bool IsWork(const Span& span, Pass pass) {
  const bool in_block = IsCompute(span.op_class) || span.op_class == OpClass::kTpComm ||
                        span.op_class == OpClass::kCpComm || span.op_class == OpClass::kEpComm;
  return in_block && pass != Pass::kNone && pass != Pass::kUpdate;
}

bool IsBackward(Pass pass) {
  return pass == Pass::kBackward || pass == Pass::kBackwardInput || pass == Pass::kBackwardWeight;
}

// The passes of one stage for one step's batch.
struct StageWork {
  std::int64_t first_forward_ns = kNever;
  std::int64_t last_backward_ns = -kNever;
  std::vector<Interval> spans;
};

// Step -> work of one rank.
using RankWork = std::map<std::int32_t, StageWork>;

// Groups a rank's work by the step that the spans serve. Spans arrive nearly sorted by step, so the
// last map entry is remembered.
RankWork WorkOf(std::span<const Span> spans) {
  RankWork work;
  StageWork* at = nullptr;
  std::int32_t step = 0;
  for (const Span& span : spans) {
    if (!IsValidId(span.op)) continue;
    const InstructionKey key = UnpackId(span.op);
    if (key.kind != InstructionKind::kBlock || !IsWork(span, key.pass)) continue;
    if (at == nullptr || span.step != step) {
      step = span.step;
      at = &work[step];
    }
    at->spans.push_back({span.start_ns, span.end_ns});
    if (key.pass == Pass::kForward) {
      at->first_forward_ns = std::min(at->first_forward_ns, span.start_ns);
    }
    if (IsBackward(key.pass)) at->last_backward_ns = std::max(at->last_backward_ns, span.end_ns);
  }
  return work;
}

// Work of one pipeline, with an entry for each rank that has spans.
struct PipelineWork {
  std::vector<int> ranks;
  std::vector<const RankWork*> work;
};

// Fills in both ratios of bubble.h from the period and the work of each stage.
void Finish(PipelineBubble& bubble) {
  const auto period = static_cast<double>(bubble.end_ns - bubble.start_ns);
  std::int64_t max = 0;
  for (const std::int64_t work : bubble.work_ns) {
    bubble.bubble += 1.0 - static_cast<double>(work) / period;
    max = std::max(max, work);
  }
  bubble.bubble /= static_cast<double>(bubble.work_ns.size());
  if (max > 0) bubble.bubble_overhead = period / static_cast<double>(max) - 1.0;
}

// The steps of all stages, ascending: a stage may lack a step that the recording cut off.
std::vector<std::int32_t> StepsOf(const PipelineWork& pipeline) {
  std::vector<std::int32_t> steps;
  for (const RankWork* work : pipeline.work) {
    for (const auto& [step, stage] : *work) steps.push_back(step);
  }
  std::sort(steps.begin(), steps.end());
  steps.erase(std::unique(steps.begin(), steps.end()), steps.end());
  return steps;
}

// The period depends on all stages, so the first loop finds it and the second cuts each stage's
// work to it.
void AddSynchronous(const PipelineWork& pipeline, int index, std::vector<PipelineBubble>& result) {
  for (const std::int32_t step : StepsOf(pipeline)) {
    PipelineBubble bubble{.pipeline = index,
                          .step = step,
                          .start_ns = kNever,
                          .end_ns = -kNever,
                          .ranks = pipeline.ranks};
    for (const RankWork* work : pipeline.work) {
      const auto stage = work->find(step);
      if (stage == work->end()) {
        bubble.work_ns.push_back(0);
        continue;
      }
      bubble.start_ns = std::min(bubble.start_ns, stage->second.first_forward_ns);
      bubble.end_ns = std::max(bubble.end_ns, stage->second.last_backward_ns);
    }
    // A step with forward passes only, or cut off by the end of the recording, has no period.
    if (bubble.end_ns <= bubble.start_ns) continue;
    bubble.work_ns.clear();
    for (const RankWork* work : pipeline.work) {
      const auto stage = work->find(step);
      bubble.work_ns.push_back(
          stage == work->end()
              ? 0
              : IntervalSet(stage->second.spans).LengthIn(bubble.start_ns, bubble.end_ns));
    }
    Finish(bubble);
    result.push_back(std::move(bubble));
  }
}

// For each step, the part of its windows that all `ranks` share.
std::map<std::int32_t, Interval> SharedWindows(const Timeline& timeline,
                                               const std::vector<int>& ranks) {
  std::map<std::int32_t, Interval> shared;
  for (const StepWindow& window : timeline.steps) {
    if (std::find(ranks.begin(), ranks.end(), window.rank) == ranks.end()) continue;
    const auto [at, is_new] =
        shared.try_emplace(window.step, Interval{window.start_ns, window.end_ns});
    at->second.start_ns = std::max(at->second.start_ns, window.start_ns);
    at->second.end_ns = std::min(at->second.end_ns, window.end_ns);
  }
  return shared;
}

// Schedules whose steps overlap: all work of a stage counts, whatever step it serves, inside the
// window that the stages share.
void AddAsynchronous(const Timeline& timeline, const PipelineWork& pipeline, int index,
                     std::vector<PipelineBubble>& result) {
  std::vector<IntervalSet> busy;
  for (const RankWork* work : pipeline.work) {
    std::vector<Interval> spans;
    for (const auto& [step, stage] : *work) {
      spans.insert(spans.end(), stage.spans.begin(), stage.spans.end());
    }
    busy.emplace_back(std::move(spans));
  }
  for (const auto& [step, window] : SharedWindows(timeline, pipeline.ranks)) {
    if (window.end_ns <= window.start_ns) continue;
    PipelineBubble bubble{.pipeline = index,
                          .step = step,
                          .start_ns = window.start_ns,
                          .end_ns = window.end_ns,
                          .ranks = pipeline.ranks};
    for (const IntervalSet& stage : busy) {
      bubble.work_ns.push_back(stage.LengthIn(window.start_ns, window.end_ns));
    }
    Finish(bubble);
    result.push_back(std::move(bubble));
  }
}

}  // namespace

std::vector<Pipeline> PipelinesIn(const std::string& details_json) {
  if (details_json.empty()) return {};
  const auto details = ParseJson(details_json, "details");
  if (!details.has_value()) return {};
  const JsonValue* const all = details->Find("pipelines");
  std::vector<Pipeline> pipelines;
  if (all == nullptr) return pipelines;
  for (const JsonValue& ranks : all->items()) {
    Pipeline pipeline;
    for (const JsonValue& rank : ranks.items()) {
      if (rank.kind() != JsonValue::Kind::kInteger) return {};
      if (rank.AsInteger() < 0 || rank.AsInteger() > INT16_MAX) return {};
      pipeline.push_back(static_cast<int>(rank.AsInteger()));
    }
    pipelines.push_back(std::move(pipeline));
  }
  return pipelines;
}

// The stages of a pipeline are world / pp ranks apart, as pp is the outermost dimension of the rank
// order.
std::vector<Pipeline> PipelinesOf(int world, int pp) {
  FT_CHECK(pp > 0 && world >= 0 && world % pp == 0);
  const int stride = world / pp;
  std::vector<Pipeline> pipelines(static_cast<std::size_t>(stride));
  for (int i = 0; i < stride; ++i) {
    for (int stage = 0; stage < pp; ++stage) {
      pipelines[static_cast<std::size_t>(i)].push_back(i + stage * stride);
    }
  }
  return pipelines;
}

std::vector<PipelineBubble> PipelineBubbles(const Timeline& timeline,
                                            std::span<const Pipeline> pipelines,
                                            const BubbleOptions& options) {
  std::vector<PipelineBubble> result;
  for (std::size_t i = 0; i < pipelines.size(); ++i) {
    std::vector<RankWork> works;
    PipelineWork pipeline;
    works.reserve(pipelines[i].size());  // `pipeline` holds pointers into it
    for (const int rank : pipelines[i]) {
      RankWork work = WorkOf(SpansOfRank(timeline, rank));
      if (work.empty()) continue;
      works.push_back(std::move(work));
      pipeline.ranks.push_back(rank);
      pipeline.work.push_back(&works.back());
    }
    const int index = static_cast<int>(i);
    if (options.asynchronous) {
      AddAsynchronous(timeline, pipeline, index, result);
    } else {
      AddSynchronous(pipeline, index, result);
    }
  }
  return result;
}

}  // namespace foretrain

#include "tests/app/desktop/long_store.h"

#include <gtest/gtest.h>

#include <random>
#include <utility>

#include "traces/store.h"

namespace foretrain {
namespace {

constexpr int kStages = 4;
constexpr int kMicroBatches = 16;

// One step of all ranks, sorted: each rank copies the first of its stage.
Timeline AllRanks(const Timeline& classes, int ranks) {
  Timeline all;
  all.world = ranks;
  all.op_names = classes.op_names;
  for (int rank = 0; rank < ranks; ++rank) {
    const int like = rank - rank % (ranks / kStages);
    for (Span span : classes.spans) {
      if (span.rank != like || span.step != 0) continue;
      span.rank = static_cast<std::int16_t>(rank);
      all.spans.push_back(span);
    }
    for (MemorySample sample : classes.memory) {
      if (sample.rank != like || sample.time_ns >= classes.steps.front().end_ns) continue;
      sample.rank = static_cast<std::int16_t>(rank);
      all.memory.push_back(sample);
    }
  }
  SortTimeline(all);
  return all;
}

std::pair<std::int64_t, std::int64_t> TimesOf(const Timeline& timeline) {
  std::pair<std::int64_t, std::int64_t> times{timeline.spans.front().start_ns, 0};
  for (const Span& span : timeline.spans) {
    times.first = std::min(times.first, span.start_ns);
    times.second = std::max(times.second, span.end_ns);
  }
  return times;
}

// Repetition `i` of a step, shifted in time, with each span longer by a random factor up to 1 +
// `max`.
Timeline Repeated(const Timeline& step, int i, double max, bool one_step, std::mt19937_64& random) {
  const auto times = TimesOf(step);
  const std::int64_t begin = times.first, end = times.second;
  const std::int64_t length = static_cast<std::int64_t>(1.35 * static_cast<double>(end - begin));
  const std::int64_t shift = i * length - begin;
  std::uniform_real_distribution<double> more(0.0, max);
  Timeline later = step;
  const auto place = [&](std::int64_t time_ns) {
    // Leaves room for longer spans, so that no spans of a queue overlap.
    return i * length + static_cast<std::int64_t>(1.3 * static_cast<double>(time_ns - begin));
  };
  for (Span& span : later.spans) {
    const auto took = static_cast<double>(span.end_ns - span.start_ns);
    span.start_ns = place(span.start_ns);
    span.ready_ns = std::min(span.start_ns, span.ready_ns + shift);
    span.end_ns = span.start_ns + static_cast<std::int64_t>(took * (1.0 + more(random)));
    span.step = one_step ? 0 : i;
    if (!one_step || !IsValidId(span.op)) continue;
    InstructionKey key = UnpackId(span.op);
    key.micro_batch += i * kMicroBatches;
    span.op = PackId(key, OpNumber(span.op));
  }
  for (MemorySample& sample : later.memory) sample.time_ns = place(sample.time_ns);
  later.steps.clear();
  for (int rank = 0; rank < step.world && !one_step; ++rank) {
    later.steps.push_back(
        {i * length, i * length + length - 1, i, static_cast<std::int16_t>(rank)});
  }
  return later;
}

void Record(Store& store, RunSetup setup, const std::string& profile, const Timeline& step,
            int repetitions, double max, bool one_step) {
  std::mt19937_64 random(7);
  auto recorder = store.BeginRun(setup);
  ASSERT_TRUE(recorder.has_value()) << recorder.error().message;
  ASSERT_TRUE((*recorder)->Attach("device_profile", profile).has_value());
  std::vector<StepWindow> windows;
  for (int i = 0; i < repetitions; ++i) {
    Timeline part = Repeated(step, i, max, one_step, random);
    const auto [begin, end] = TimesOf(part);
    for (int rank = 0; rank < step.world && one_step; ++rank) {
      if (i == 0) windows.push_back({begin, end, 0, static_cast<std::int16_t>(rank)});
      windows[static_cast<std::size_t>(rank)].end_ns = end;
    }
    ASSERT_TRUE((*recorder)->AddTimeline(std::move(part)).has_value());
  }
  ASSERT_TRUE((*recorder)->AddSteps(windows).has_value());
  const auto finished = (*recorder)->Finish(RunStatus::kFinished);
  ASSERT_TRUE(finished.has_value()) << finished.error().message;
}

}  // namespace

LongStore MakeLongStore(const TemporaryFolder& folder, std::int64_t spans, bool one_step,
                        int ranks) {
  LongStore made{.path = folder.path() + "/long.db"};
  const ProgramEnd predicted = RunForetrain(
      folder.path(), "predict --model gpt2-124m --cluster " + std::to_string(ranks / 8) +
                         "x8xh100-80gb-sxm --pp 4 --dp " + std::to_string(ranks / kStages) +
                         " --global-batch " + std::to_string(kMicroBatches * ranks / kStages) +
                         " --micro-batch 1 --store long.db");
  EXPECT_EQ(predicted.code, 0) << predicted.errors;
  if (predicted.code != 0) return made;
  const auto reader = StoreReader::Open(made.path);
  const auto base = reader.has_value() ? reader->LoadRun(1)
                                       : Result<StoredRun>(tl::unexpected<Error>(reader.error()));
  EXPECT_TRUE(base.has_value()) << base.error().message;
  if (!base.has_value()) return made;
  const std::string profile = reader->Attachment(1, "device_profile").value();
  const Timeline step = AllRanks(base->timeline, ranks);
  const auto of_step = static_cast<std::int64_t>(step.spans.size());
  const std::int64_t forecasts = one_step ? spans / 2 / of_step : 1;
  const std::int64_t steps = std::max<std::int64_t>(1, spans / of_step - forecasts);
  made.spans = (forecasts + steps) * of_step;
  made.steps = one_step ? 1 : static_cast<std::int32_t>(steps);
  const auto store = Store::Open(made.path);
  EXPECT_TRUE(store.has_value()) << store.error().message;
  if (!store.has_value()) return made;
  RunSetup setup{.kind = RunKind::kPredicted, .world = ranks, .specs = base->specs};
  Record(**store, setup, profile, step, static_cast<int>(forecasts), 0.0, one_step);
  setup.kind = RunKind::kMeasured;
  setup.forecast = 2;
  Record(**store, setup, profile, step, static_cast<int>(steps), 0.3, one_step);
  return made;
}

}  // namespace foretrain

#include "sim/program/schedules/schedule.h"

#include "base/result.h"

namespace foretrain {
namespace {

using SlotsOf = std::vector<Slot> (*)(const PipelineShape&, int);
using MakespanOf = double (*)(const PipelineShape&, const SlotTimes&);

std::vector<Slot> CustomSlots(const PipelineShape& shape, int rank) {
  FT_CHECK(shape.slots.ranks() == shape.p && shape.slots.micro_batches() == shape.m);
  return shape.slots.SlotsOf(rank);
}

struct Schedule {
  SlotsOf slots = nullptr;
  MakespanOf makespan = nullptr;  // closed form; null if there is none
};

// The only table of schedules: a new one adds a line here and a file beside this one.
Schedule Find(ScheduleKind schedule) {
  switch (schedule) {
    case ScheduleKind::kGpipe:
      return {GpipeSlots, GpipeMakespan};
    case ScheduleKind::k1f1b:
      return {OneFOneBSlots, OneFOneBMakespan};
    case ScheduleKind::kInterleaved:
      return {InterleavedSlots, InterleavedMakespan};
    case ScheduleKind::kZbH1:
      return {ZbH1Slots, ZbH1Makespan};
    case ScheduleKind::kZbH2:
      return {ZbH2Slots};
    case ScheduleKind::kZbV:
      return {ZbVSlots};
    case ScheduleKind::kDualPipe:
      return {DualPipeSlots};
    case ScheduleKind::kDualPipeV:
      return {DualPipeVSlots};
    case ScheduleKind::kPipeDream:
    case ScheduleKind::kPipeDream2bw:
      return {PipeDreamSlots, PipeDreamMakespan};
    case ScheduleKind::kCustom:
      return {CustomSlots};
  }
  FT_CHECK(false && "a schedule without slots");
  return {};
}

}  // namespace

PipelineShape PipelineShapeOf(const Plan& plan) {
  return {plan.pp, static_cast<int>(plan.MicroBatches()), plan.vpp, plan.slots};
}

Placement PlacementOf(ScheduleKind schedule, const PipelineShape& shape) {
  if (schedule != ScheduleKind::kCustom) return Placement(schedule, shape.p, shape.vpp);
  return Placement(shape.slots.shape(), shape.p, shape.slots.chunks());
}

std::vector<Slot> MakeSlots(ScheduleKind schedule, const PipelineShape& shape, int rank) {
  FT_CHECK(shape.p >= 1 && shape.m >= 1 && rank >= 0 && rank < shape.p);
  return Find(schedule).slots(shape, rank);
}

Result<ScheduleDraft> DraftOf(const Plan& plan) {
  if (plan.StepsOverlap()) {
    return Fail(ErrorCode::kUnsupported,
                "schedule " + std::string(Name(plan.schedule)) +
                    ": its steps overlap, and a file lists the passes of one step alone; use "
                    "schedule 1f1b");
  }
  const PipelineShape shape = PipelineShapeOf(plan);
  const Placement placement(plan);
  ScheduleDraft draft;
  for (int rank = 0; rank < shape.p; ++rank) {
    auto& actions = draft.ranks.emplace_back();
    for (const Slot& slot : MakeSlots(plan.schedule, shape, rank)) {
      actions.push_back(
          {slot.pass, placement.StageOf(rank, slot.chunk), slot.micro_batch, slot.paired});
    }
  }
  return draft;
}

// A closed form is used only if it is exact for these times; otherwise it returns a negative number
// and the slots are played.
double Makespan(ScheduleKind schedule, const PipelineShape& shape, const SlotTimes& times) {
  FT_CHECK(shape.p >= 1 && shape.m >= 1);
  if (const MakespanOf closed = Find(schedule).makespan; closed != nullptr) {
    if (const double makespan_s = closed(shape, times); makespan_s >= 0) return makespan_s;
  }
  return LongestPath(schedule, shape, times);
}

}  // namespace foretrain

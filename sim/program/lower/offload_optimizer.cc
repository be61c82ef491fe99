// Updates of optimizer state that lies off the device, piece by piece:
//
//   by the host    [gradients out] -> [read] -> update on cpu -> [write], parameters in
//   streamed       [read] -> in -> update on compute -> out -> [write]
//
// with reads and writes where the state lies on a disk. A piece is brought while the one before is
// updated. Ren et al. 2021 (ZeRO-Offload), s. 4; Rajbhandari et al. 2021 (ZeRO-Infinity), s. 6.
#include <algorithm>
#include <array>
#include <optional>

#include "base/result.h"
#include "sim/program/blocks/block_builder.h"
#include "sim/program/lower/bucket_state.h"
#include "sim/program/lower/lowerings.h"
#include "sim/program/lower/offload_copies.h"
#include "sim/program/lower/offload_state.h"
#include "sim/program/lower/sharding.h"
#include "sim/program/lower/update_pieces.h"
#include "sim/program/precision.h"

namespace foretrain {
namespace {

// A piece, where it lies, and the tensors on their way.
struct At {
  RankBuilder& rank;
  const InstructionKey& key;
  const LowerContext& context = rank.Context();
  OptimizerOffload offload = OffloadOf(context, key.part);
  const Bucket& bucket = rank.BucketOf(key);
  StatePiece piece = StatePiecesOf(context, key.part)[static_cast<std::size_t>(key.micro_batch)];
  std::int64_t elements = piece.end - piece.begin;

  Binding Home(StatePart part) const {
    const std::int64_t first = piece.begin - ShardOf(bucket).begin;
    switch (part) {
      case StatePart::kGradient:
        return GradientRangeOf(rank, bucket, piece.begin, piece.end);
      case StatePart::kMoment1:
        return rank.Part(bucket.moment1, first, elements);
      case StatePart::kMoment2:
        return rank.Part(bucket.moment2, first, elements);
      case StatePart::kParameter:
      case StatePart::kWeights:
        break;
    }
    if (part == StatePart::kParameter && bucket.master >= 0)
      return rank.Part(bucket.master, first, elements);
    return ParameterRangeOf(rank, bucket, piece.begin, piece.end);
  }
  // On its way, else at home.
  Binding Now(StatePart part) const {
    const int found = rank.Tensors().Find(NameOf(part, key));
    return found >= 0 ? rank.Whole(found) : Home(part);
  }
  Binding Bring(StatePart part, Space space) const {
    Forget(part);
    const NumberFormat format = FormatOf(context.plan, part);
    const int buffer = rank.NewBuffer(BytesIn(format, elements), CategoryOf(part), space, format);
    return rank.Whole(rank.Tensors().Put(NameOf(part, key), buffer));
  }
  void Forget(StatePart part) const {
    if (rank.Tensors().Find(NameOf(part, key)) >= 0) rank.Tensors().Drop(NameOf(part, key));
  }
};

// What all updates wait for, in the order in which they take it: on the device, and for the host.
struct Scalar {
  TensorKind here;
  TensorKind away;
};
std::vector<Scalar> ScalarsOf(const Plan& plan) {
  std::vector<Scalar> scalars;
  if (plan.clip_norm > 0) scalars.push_back({TensorKind::kNorm, TensorKind::kNormAway});
  if (plan.loss_scale > 0) {
    scalars.push_back({TensorKind::kNotFinite, TensorKind::kNotFiniteAway});
    scalars.push_back({TensorKind::kSkipped, TensorKind::kSkippedAway});
  }
  if (plan.HasDynamicScale()) {
    scalars.push_back({TensorKind::kLossScale, TensorKind::kLossScaleAway});
  }
  return scalars;
}

void EmitRead(RankBuilder& rank, const InstructionKey& key) {
  const At at{rank, key};
  std::vector<Move> moves;
  for (const StatePart part : PartsOnDisk(at.context, at.offload)) {
    const Binding home = at.Home(part);
    moves.push_back({home, at.Bring(part, Space::kPinned)});
  }
  AddCopies(rank, key, "optimizer.read", /*state=*/true, moves);
}

void EmitWrite(RankBuilder& rank, const InstructionKey& key) {
  const At at{rank, key};
  std::vector<Move> moves;
  for (const StatePart part : PartsOnDisk(at.context, at.offload)) {
    moves.push_back({at.Now(part), at.Home(part)});
    const bool copied_next =
        part == StatePart::kParameter && HasDeviceCopy(at.offload) && !HasMasters(at.context.plan);
    if (!copied_next) at.Forget(part);
  }
  AddCopies(rank, key, "optimizer.write", /*state=*/true, moves);
}

void EmitStreamIn(RankBuilder& rank, const InstructionKey& key) {
  const At at{rank, key};
  std::vector<Move> moves;
  for (const StatePart part : PartsStreamedIn(at.context)) {
    const Binding now = at.Now(part);
    moves.push_back({now, at.Bring(part, Space::kDevice)});
  }
  AddCopies(rank, key, "optimizer.in", /*state=*/true, moves);
}

void EmitStreamOut(RankBuilder& rank, const InstructionKey& key) {
  const At at{rank, key};
  std::vector<Move> moves;
  for (const StatePart part : PartsStreamed(at.context)) {
    const Binding now = at.Now(part);
    const bool disk = HomeOf(at.context, at.offload, part) == Space::kNvme;
    moves.push_back({now, disk ? at.Bring(part, Space::kPinned) : at.Home(part)});
    if (!disk) at.Forget(part);
  }
  AddCopies(rank, key, "optimizer.out", /*state=*/true, moves);
}

void EmitGradientOut(RankBuilder& rank, const InstructionKey& key) {
  const At at{rank, key};
  const Binding from = at.Home(StatePart::kGradient);
  const Binding to = at.offload.delayed ? at.Now(StatePart::kGradient)
                                        : at.Bring(StatePart::kGradient, Space::kPinned);
  const std::array<Move, 1> moves{Move{from, to}};
  AddCopies(rank, key, "gradients.out", /*state=*/true, moves);
}

void EmitParameterIn(RankBuilder& rank, const InstructionKey& key) {
  const At at{rank, key};
  const StatePart part = HasMasters(at.context.plan) ? StatePart::kWeights : StatePart::kParameter;
  const std::array<Move, 1> moves{
      Move{at.Now(part), ParameterRangeOf(rank, at.bucket, at.piece.begin, at.piece.end)}};
  at.Forget(part);
  AddCopies(rank, key, "parameters.in", /*state=*/false, moves);
}

void EmitUpdate(RankBuilder& rank, const InstructionKey& key) {
  const At at{rank, key};
  const Plan& plan = at.context.plan;
  const std::int64_t decayed =
      std::clamp<std::int64_t>(at.bucket.decayed - at.piece.begin, 0, at.elements);
  const bool stream = at.offload.stream;
  const Queue queue = stream ? Queue::kCompute : Queue::kCpu;
  const bool delayed = at.offload.delayed;
  const std::string name = "optimizer." + std::to_string(at.elements) + "." +
                           std::to_string(decayed) + (stream ? "" : ".cpu") +
                           (delayed ? ".delayed" : "");
  const int block = rank.FindBlock(
      name, [&] { return OptimizerBlock(plan, at.elements, decayed, queue, delayed); });
  std::vector<Binding> bindings = {at.Now(StatePart::kParameter), at.Now(StatePart::kGradient),
                                   at.Now(StatePart::kMoment1), at.Now(StatePart::kMoment2)};
  for (const Scalar& scalar : ScalarsOf(plan)) {
    bindings.push_back(rank.Whole(rank.Tensors().At({stream ? scalar.here : scalar.away})));
  }
  if (HasMasters(plan)) {
    bindings.push_back(stream ? at.Home(StatePart::kWeights)
                              : at.Bring(StatePart::kWeights, Space::kPinned));
  }
  rank.Add(key, block, bindings);
  if (!delayed) at.Forget(StatePart::kGradient);
}

void EmitScalarsOut(RankBuilder& rank, const InstructionKey& key) {
  std::vector<Move> moves;
  for (const Scalar& scalar : ScalarsOf(rank.Context().plan)) {
    moves.push_back({rank.Whole(rank.Tensors().At({scalar.here})),
                     rank.Whole(rank.Tensors().At({scalar.away}))});
  }
  AddCopies(rank, key, "norm.out", /*state=*/true, moves);
}

template <StepMemory (*in)(const LowerContext&, const InstructionKey&, Space)>
StepMemory OnDevice(const LowerContext& context, const InstructionKey& key) {
  return in(context, key, Space::kDevice);
}
constexpr StepRule kRead{EmitRead, nullptr, PieceReadMemory};
constexpr StepRule kWrite{EmitWrite, nullptr, PieceWriteMemory};
constexpr StepRule kStreamIn{EmitStreamIn, OnDevice<PieceStreamInMemory>, PieceStreamInMemory};
constexpr StepRule kStreamOut{EmitStreamOut, OnDevice<PieceStreamOutMemory>, PieceStreamOutMemory};
constexpr StepRule kGradientOut{EmitGradientOut, nullptr, PieceGradientOutMemory};
constexpr StepRule kParameterIn{EmitParameterIn, nullptr, PieceParameterInMemory};
constexpr StepRule kUpdate{EmitUpdate, OnDevice<PieceUpdateMemory>, PieceUpdateMemory};
constexpr StepRule kScalarsOut{EmitScalarsOut};

// ---- order

struct PieceId {
  int bucket = 0;
  int piece = 0;
};

// What is done to a piece, `lag` pieces behind the first thing that is done to one.
struct PieceStage {
  InstructionKind kind;
  const StepRule* rule;
  int lag;
};

std::vector<PieceStage> StagesOf(const LowerContext& context, const OptimizerOffload& offload) {
  std::vector<PieceStage> stages;
  const bool disk = !PartsOnDisk(context, offload).empty();
  int lag = 0;
  if (disk) stages.push_back({InstructionKind::kNvmeRead, &kRead, lag++});
  if (offload.stream) stages.push_back({InstructionKind::kCopyIn, &kStreamIn, lag++});
  stages.push_back({InstructionKind::kOptimizerStep, &kUpdate, lag});
  if (offload.stream) stages.push_back({InstructionKind::kCopyOut, &kStreamOut, lag});
  if (disk) stages.push_back({InstructionKind::kNvmeWrite, &kWrite, lag});
  if (HasDeviceCopy(offload) && !offload.delayed) {
    stages.push_back({InstructionKind::kCopyIn, &kParameterIn, lag});
  }
  return stages;
}

using LastUses = std::vector<std::optional<InstructionKey>>;  // by bucket
// The copies to the device wait for the last use of the whole bucket, also where a rank's own shard
// is read no more: the gather behind them does anyhow, and so all ranks of a stage are alike.
LastUses LastUsesOf(const LowerContext& context, const Skeleton& skeleton) {
  LastUses last(context.layout.buckets.size());
  if (!ShardingOf(context.plan).optimizer) return last;
  for (const SkeletonStep& step : skeleton) {
    if (step.key.kind != InstructionKind::kBlock) continue;
    for (const int bucket : context.BucketsOf(step.key.block)) {
      if (ShardsParameters(context.plan, context.BucketAt(bucket))) continue;
      last[static_cast<std::size_t>(bucket)] = step.key;
    }
  }
  return last;
}

// The updates of the pieces, overlapped: each stage of a piece stands before the later stages of
// the pieces ahead of it.
std::vector<SkeletonStep> Pipelined(const LowerContext& context, const std::vector<PieceId>& pieces,
                                    const LastUses& last) {
  std::vector<SkeletonStep> steps;
  if (pieces.empty()) return steps;
  const std::vector<PieceStage> stages =
      StagesOf(context, OffloadOf(context, pieces.front().bucket));
  const auto count = static_cast<int>(pieces.size());
  for (int turn = 0; turn < count + stages.back().lag; ++turn) {
    for (const PieceStage& stage : stages) {
      const int number = turn - stage.lag;
      if (number < 0 || number >= count) continue;
      const PieceId& id = pieces[static_cast<std::size_t>(number)];
      SkeletonStep step{PieceKey(stage.kind, id.bucket, id.piece), stage.rule};
      if (stage.rule == &kParameterIn) step.after = last[static_cast<std::size_t>(id.bucket)];
      steps.push_back(step);
    }
  }
  return steps;
}

std::vector<PieceId> PieceIds(const LowerContext& context, int bucket) {
  std::vector<PieceId> ids;
  if (!OffloadOf(context, bucket).away) return ids;
  const auto count = static_cast<int>(StatePiecesOf(context, bucket).size());
  for (int piece = 0; piece < count; ++piece) ids.push_back({bucket, piece});
  return ids;
}

// Behind which position of the skeleton each bucket's gradients are summed, over micro-batches and
// ranks.
std::vector<std::size_t> ReadyPositions(const LowerContext& context, const Skeleton& skeleton) {
  std::vector<std::size_t> ready(context.layout.buckets.size(), 0);
  const auto note = [&](int bucket, std::size_t position) {
    std::size_t& last = ready[static_cast<std::size_t>(bucket)];
    last = std::max(last, position);
  };
  for (const BucketCompletion& done : BucketCompletions(context, skeleton)) {
    note(done.bucket, done.position);
  }
  for (std::size_t i = 0; i < skeleton.size(); ++i) {
    const auto& [kind, pass, block, micro_batch, part] = skeleton[i].key;
    const bool leaves = kind == InstructionKind::kCopyOut && pass == Pass::kBackward;
    if (kind == InstructionKind::kAllReduce || kind == InstructionKind::kReduceScatter || leaves ||
        kind == InstructionKind::kAccumulate || kind == InstructionKind::kHeadReduce) {
      note(part, i);
    }
  }
  return ready;
}

// Pieces of all buckets in the order in which the next forward needs them or, where a delayed
// update reads gradients that the step beside it replaces, in the order in which that does so.
std::vector<PieceId> AllPieces(const LowerContext& context) {
  const bool by_backward = context.plan.delayed_update && GradientsAreAway(context.plan);
  const auto buckets = static_cast<int>(context.layout.buckets.size());
  std::vector<PieceId> all;
  for (int i = 0; i < buckets; ++i) {
    const std::vector<PieceId> ids = PieceIds(context, by_backward ? i : buckets - 1 - i);
    all.insert(all.end(), ids.begin(), ids.end());
  }
  return all;
}

}  // namespace

// Masters, and what a delayed update keeps from step to step.
void MakeOptimizerOffloadState(RankBuilder& rank) {
  const LowerContext& context = rank.Context();
  const Plan& plan = context.plan;
  if (plan.offload_optimizer == OffloadTarget::kNone) return;
  for (std::size_t i = 0; i < rank.Rank().buckets.size(); ++i) {
    Bucket& bucket = rank.Rank().buckets[i];
    const auto number = static_cast<int>(i);
    const OptimizerOffload offload = OffloadOf(context, number);
    if (HasDeviceCopy(offload) && bucket.master < 0) {
      const NumberFormat format = FormatOf(plan, StatePart::kParameter);
      bucket.master = rank.NewState(BytesIn(format, bucket.elements / bucket.shards),
                                    Category::kMasterWeights, offload.master, format);
    }
    if (!offload.delayed || GradientsAreAway(plan)) continue;
    const std::vector<StatePiece> pieces = StatePiecesOf(context, number);
    for (std::size_t p = 0; p < pieces.size(); ++p) {
      const InstructionKey key =
          PieceKey(InstructionKind::kOptimizerStep, number, static_cast<int>(p));
      rank.Tensors().Put(NameOf(StatePart::kGradient, key),
                         rank.NewState(BytesIn(bucket.sums, pieces[p].end - pieces[p].begin),
                                       Category::kGradients, Space::kPinned, bucket.sums));
    }
  }
  if (plan.stream_optimizer) return;
  for (const Scalar& scalar : ScalarsOf(plan)) {
    rank.Tensors().Put({scalar.away},
                       rank.NewState(kFloatBytes, Category::kWorkspace, Space::kPinned));
  }
}

void LowerOptimizerOffload(const LowerContext& context, Skeleton& skeleton) {
  const Plan& plan = context.plan;
  if (plan.offload_optimizer == OffloadTarget::kNone) return;
  const bool waits = !ScalarsOf(plan).empty();
  Insertions insertions;
  const std::vector<std::size_t> ready = ReadyPositions(context, skeleton);
  const LastUses last = LastUsesOf(context, skeleton);
  const auto buckets = static_cast<int>(context.layout.buckets.size());
  for (int bucket = 0; bucket < buckets; ++bucket) {
    const std::vector<PieceId> ids = PieceIds(context, bucket);
    const std::size_t behind = ready[static_cast<std::size_t>(bucket)];
    if (!plan.stream_optimizer && !GradientsAreAway(plan)) {
      for (const PieceId& id : ids) {
        insertions.Behind(behind,
                          {PieceKey(InstructionKind::kCopyOut, bucket, id.piece), &kGradientOut});
      }
    }
    if (waits || plan.delayed_update) continue;
    // Nothing but its gradients holds an update up.
    for (const SkeletonStep& step : Pipelined(context, ids, last)) insertions.Behind(behind, step);
  }
  const std::vector<PieceId> all = AllPieces(context);
  if (plan.delayed_update) {
    for (const SkeletonStep& step : Pipelined(context, all, last)) insertions.Before(0, step);
  }
  insertions.ApplyTo(skeleton);
  if (waits && !plan.stream_optimizer) {
    skeleton.push_back(
        {{InstructionKind::kCopyOut, Pass::kUpdate, context.stage.layers + 1, 0, 0}, &kScalarsOut});
  }
  if (plan.delayed_update) {
    // The device is done with the step's parameters.
    for (const PieceId& id : all) {
      skeleton.push_back({PieceKey(InstructionKind::kCopyIn, id.bucket, id.piece), &kParameterIn,
                          last[static_cast<std::size_t>(id.bucket)]});
    }
  } else if (waits) {
    for (const SkeletonStep& step : Pipelined(context, all, last)) skeleton.push_back(step);
  }
}

}  // namespace foretrain

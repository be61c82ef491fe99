// Longer than 400 lines: sizes, groups and shards of buckets are made from one list of parameters.
#include "sim/program/lower/layout/bucket_layout.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/checked.h"
#include "base/result.h"
#include "sim/config/schedule/placement.h"
#include "sim/program/blocks/block_builder.h"
#include "sim/program/blocks/packed_tensors.h"
#include "sim/program/ir/precision.h"
#include "sim/program/lower/layout/factored_moments.h"
#include "sim/program/lower/layout/layout_sizes.h"
#include "sim/program/lower/layout/sharding.h"

namespace foretrain {
namespace {

constexpr std::int64_t kShardGrain = 16;  // elements: one cache line of fp32

// By BlockKind; empty for a kind that the model does not have.
using ParameterLists = std::array<std::vector<BlockParameter>, kLayoutKinds>;

std::size_t At(BlockKind kind) { return static_cast<std::size_t>(kind); }

// Lists are built per kind of block, not per block: layers of a kind have equal parameters.
ParameterLists ListsOf(const ModelSpec& model, const Plan& plan, int ep_rank) {
  ParameterLists lists;
  std::vector<LayerCount> kinds = LayerCounts(model);
  for (const BlockKind end : {BlockKind::kEmbedding, BlockKind::kHead}) kinds.push_back({end, 1});
  for (const auto& [kind, blocks] : kinds) {
    if (blocks > 0) lists[At(kind)] = ParametersOf(model, plan, kind, ep_rank);
  }
  return lists;
}

// Whether weight decay applies. A head that shares the table of tokens goes by the table's name.
bool Decays(const BlockParameter& parameter, BlockKind kind, DecayKind decay) {
  const bool is_table =
      kind == BlockKind::kEmbedding || parameter.parts.front().name == kTokenTableName;
  switch (decay) {
    case DecayKind::kAll:
      return true;
    case DecayKind::kNoEmbeddings:
      return parameter.decays && !is_table;
    case DecayKind::kMatrices:
      break;
  }
  return parameter.decays;
}

// Muon updates matrices of layers; experts, which have buckets of their own, are left to AdamW.
// Adafactor updates all tensors.
bool IsUpdatedWhole(const BlockParameter& parameter, BlockKind kind, const Plan& plan) {
  if (parameter.frozen) return false;
  if (plan.optimizer == OptimizerKind::kAdafactor) return true;
  return plan.optimizer == OptimizerKind::kMuon && IsLayer(kind) && parameter.decays &&
         !parameter.experts;
}

// Numbers behind a tensor's last row, which pad its parameter, belong to none.
std::vector<MatrixSplit> MatricesOf(const BlockParameter& parameter, BlockKind kind,
                                    const Plan& plan) {
  std::vector<MatrixSplit> matrices;
  if (!IsUpdatedWhole(parameter, kind, plan)) return matrices;
  std::int64_t offset = 0;
  for (const ModelTensor& part : parameter.parts) {
    MatrixSplit& matrix = matrices.emplace_back();
    matrix.place.offset = offset;
    matrix.place.rows = part.rows;
    matrix.place.cols = part.cols;
    matrix.axis = parameter.split;
    matrix.copies = parameter.split == SplitAxis::kNone ? plan.tp : part.Copies(plan.tp);
    const int pieces = plan.tp / matrix.copies;
    matrix.each = parameter.split == SplitAxis::kRows ? RowsOfPiece(part, pieces)
                                                      : CeilDiv(part.cols, pieces);
    offset += ElementsOf(part, parameter.split, plan.tp);
  }
  return matrices;
}

ParameterSizes SizesOf(const ParameterLists& lists, const Plan& plan) {
  ParameterSizes sizes;
  for (std::size_t kind = 0; kind < lists.size(); ++kind) {
    for (const BlockParameter& parameter : lists[kind]) {
      ParameterSize& size = sizes.of_kind[kind].emplace_back();
      if (parameter.parts.empty()) continue;
      size = {.present = true,
              .elements = ElementsOf(parameter, plan.tp),
              .packed_bytes = parameter.quantized ? PackedBytes(parameter, plan.tp) : 0,
              .token_table = parameter.parts.front().name == kTokenTableName,
              .matrices = MatricesOf(parameter, static_cast<BlockKind>(kind), plan),
              .decays = Decays(parameter, static_cast<BlockKind>(kind), plan.decay),
              .own_rows = parameter.own_rows,
              .experts = parameter.experts,
              .frozen = parameter.frozen,
              .quantized = parameter.quantized};
    }
  }
  return sizes;
}

// A parameter that gets a place on this stage. A shared table belongs to the embedding alone.
struct Member {
  int block = 0;
  int index = 0;
  const ParameterSize* size = nullptr;
};

std::vector<Member> MembersOf(const ParameterSizes& sizes, const Stage& stage, int block) {
  std::vector<Member> members;
  const BlockKind kind = stage.KindOf(block);
  const std::vector<ParameterSize>& list = sizes.of_kind[At(kind)];
  for (std::size_t i = 0; i < list.size(); ++i) {
    const bool tied_copy = kind == BlockKind::kHead && static_cast<int>(i) == stage.tied_copy;
    if (!list[i].present || (tied_copy && stage.shared_table)) continue;
    members.push_back({block, static_cast<int>(i), &list[i]});
  }
  return members;
}

bool IsTokenTable(const Stage& stage, const Member& member) {
  return stage.tied && member.size->token_table;
}

// Members collected so far for one bucket.
struct OpenGroup {
  std::vector<Member> members;
  std::int64_t bytes = 0;
};

// Groups of members that share a bucket, in the order in which a backward completes them. Blocks
// are walked in that order, and a bucket is closed as soon as it is large enough, so that its
// reduction can start early. Experts, frozen tensors and quantized ones fill buckets of their own:
// they differ in holders, in training or in format.
std::vector<std::vector<Member>> GroupMembers(const ParameterSizes& sizes, const Plan& plan,
                                              const Stage& stage) {
  std::vector<std::vector<Member>> groups;
  std::vector<Member> tables;
  OpenGroup shared, experts, frozen, quantized, matrices;
  const bool apart = plan.optimizer == OptimizerKind::kMuon;
  const auto close = [&](std::int64_t min_bytes) {
    for (OpenGroup* open : {&shared, &matrices, &experts, &frozen, &quantized}) {
      if (open->members.empty() || open->bytes < min_bytes) continue;
      groups.push_back(std::move(open->members));
      *open = {};
    }
  };
  const bool copied = plan.zero_stage == 3 || plan.offload_parameters != OffloadTarget::kNone;
  const NumberFormat counted = copied ? WeightFormat(plan) : SumFormat(plan);
  for (auto block = stage.blocks.rbegin(); block != stage.blocks.rend(); ++block) {
    // Chunks complete at different times, so they share no bucket. The embedding's backward reads
    // no parameters, so its copy would be useless there.
    if (block != stage.blocks.rbegin() && *block != *(block - 1) - 1) close(0);
    if (*block == 0 && copied) close(0);
    for (const Member& member : MembersOf(sizes, stage, *block)) {
      if (IsTokenTable(stage, member)) {
        tables.push_back(member);
        continue;
      }
      OpenGroup& open = member.size->quantized                    ? quantized
                        : member.size->frozen                     ? frozen
                        : member.size->experts                    ? experts
                        : apart && !member.size->matrices.empty() ? matrices
                                                                  : shared;
      open.bytes += member.size->quantized ? member.size->packed_bytes
                                           : BytesIn(counted, member.size->elements);
      open.members.push_back(member);
    }
    close(copied ? plan.gather_bytes : plan.bucket_bytes);
  }
  close(0);
  for (const Member& table : tables) groups.push_back({table});
  return groups;
}

// Rows or columns of rank `rank`; the last ranks may have fewer or none.
void SplitRange(std::int64_t size, std::int64_t each, int rank, std::int64_t& begin,
                std::int64_t& end) {
  begin = std::min(size, each * rank);
  end = std::min(size, begin + each);
}

class Builder {
 public:
  // `lists`: tensors that get places; null: sizes only.
  Builder(const Plan& plan, const Stage& stage, const LayoutVariant& variant,
          const ParameterLists* lists)
      : plan_(plan), stage_(stage), variant_(variant), lists_(lists) {
    out_.ranges.resize(stage.blocks.size());
    out_.buckets_of_block.resize(stage.blocks.size());
  }

  void Add(std::vector<Member> group) {
    // Tensors with weight decay come first, so decay is one range. Tensors with own-row gradients
    // stand at the border between both parts, so they are one range too. Then forward order.
    std::stable_sort(group.begin(), group.end(), [](const Member& a, const Member& b) {
      if (a.size->decays != b.size->decays) return a.size->decays;
      if (a.size->own_rows != b.size->own_rows) {
        return a.size->decays ? b.size->own_rows : a.size->own_rows;
      }
      return a.block < b.block;
    });
    Bucket bucket;
    ShardRange own_rows{-1, -1};
    for (const Member& member : group) {
      if (member.size->own_rows && own_rows.begin < 0) own_rows.begin = bucket.used;
      Place(member, bucket);
      if (member.size->own_rows) own_rows.end = bucket.used;
    }
    out_.own_row_gradients.push_back(own_rows);
    const Sharding sharding = ShardingOf(plan_);
    bucket.experts = group.front().size->experts;
    bucket.frozen = group.front().size->frozen;
    const bool whole = !group.front().size->matrices.empty();
    bucket.orthogonal = whole && plan_.optimizer == OptimizerKind::kMuon;
    bucket.factored = whole && plan_.optimizer == OptimizerKind::kAdafactor;
    // Frozen tensors without adapters are router biases. They move by small steps and stay in fp32.
    bucket.unsharded = bucket.frozen && !plan_.HasAdapters();
    bucket.weights = group.front().size->quantized ? NumberFormat::kByte
                     : bucket.unsharded            ? NumberFormat::kFp32
                                                   : WeightFormat(plan_);
    bucket.sums = SumFormat(plan_);
    // In a frozen bucket only parameters can be sharded.
    const bool shares =
        bucket.frozen ? sharding.parameters && !bucket.unsharded : sharding.optimizer;
    bucket.shards = shares ? sharding.shards : 1;
    if (bucket.experts && sharding.optimizer) bucket.shards = plan_.ExpertHolders();
    const std::int64_t grain = kShardGrain * bucket.shards;
    bucket.elements = CeilDiv(bucket.used, grain) * grain;
    if (stage_.HoldsTiedCopy() && !bucket.frozen && IsTokenTable(stage_, group.front())) {
      out_.tied_bucket = static_cast<int>(out_.buckets.size());
    }
    out_.buckets.push_back(bucket);
    out_.counted.resize(out_.buckets.size());
    out_.matrices.resize(out_.buckets.size());
  }

  BucketLayout Take(const ParameterSizes& sizes) {
    LeaveWhole();
    if (stage_.shared_table) {
      const int head_block = stage_.layers + 1;
      const auto tied_copy = static_cast<std::size_t>(stage_.tied_copy);
      const ParameterRange table = Ranges(0, kEmbeddingParameterCount)[kTokenTable];
      Ranges(head_block, stage_.tied_copy + 1)[tied_copy] = table;
      Note(head_block, table.bucket);
    }
    for (const int block : stage_.blocks) {
      Ranges(block, static_cast<int>(sizes.of_kind[At(stage_.KindOf(block))].size()));
    }
    return std::move(out_);
  }

 private:
  // Leaves the first blocks unsharded, up to unsharded_bytes: no compute precedes their gathers in
  // a step's forward, so nothing could hide them.
  void LeaveWhole() {
    if (!ShardingOf(plan_).parameters) return;
    std::int64_t left = plan_.unsharded_bytes;
    for (auto bucket = out_.buckets.rbegin(); bucket != out_.buckets.rend(); ++bucket) {
      if (bucket->unsharded) continue;
      left -= BytesIn(bucket->weights, bucket->elements);
      if (left < 0) break;
      bucket->unsharded = true;
    }
  }

  std::vector<ParameterRange>& Ranges(int block, int count) {
    auto& list = out_.ranges[stage_.Local(block)];
    if (static_cast<int>(list.size()) < count) list.resize(static_cast<std::size_t>(count));
    return list;
  }

  void Note(int block, int bucket) {
    auto& list = out_.buckets_of_block[stage_.Local(block)];
    if (std::find(list.begin(), list.end(), bucket) == list.end()) list.push_back(bucket);
  }

  void Place(const Member& member, Bucket& bucket) {
    const int number = static_cast<int>(out_.buckets.size());
    const ParameterSize& size = *member.size;
    const std::int64_t begin = bucket.used;
    const std::int64_t units = size.quantized ? size.packed_bytes : size.elements;
    Ranges(member.block, member.index + 1)[static_cast<std::size_t>(member.index)] = {number, begin,
                                                                                      units};
    Note(member.block, number);
    if (lists_ != nullptr) {
      PlaceTensors(member, number, begin);
    } else if (Counts(member)) {
      AddCounted(number, begin, size.elements);
    }
    out_.matrices.resize(static_cast<std::size_t>(number) + 1);
    std::vector<MatrixPlace>& matrices = out_.matrices.back();
    for (const MatrixSplit& split : size.matrices) {
      MatrixPlace matrix = split.place;
      matrix.offset += begin;
      matrix.own_rows = {0, matrix.rows};
      matrix.own_cols = {0, matrix.cols};
      const int piece = variant_.tp / split.copies;
      if (split.axis != SplitAxis::kNone) {
        ShardRange& own = split.axis == SplitAxis::kRows ? matrix.own_rows : matrix.own_cols;
        SplitRange(own.end, split.each, piece, own.begin, own.end);
      }
      matrix.counted = variant_.tp % split.copies == 0 || (size.experts && plan_.ExpertsSpanTp());
      matrix.row_moments = RowMomentsOf(matrices);
      matrix.col_moments = ColMomentsOf(matrices);
      matrix.decays = size.decays;
      matrices.push_back(matrix);
    }
    ++bucket.tensors;
    if (!size.quantized) bucket.used += size.elements;
    if (size.decays) bucket.decayed = bucket.used;
    if (size.quantized) bucket.used += CeilDiv(units, kShardGrain) * kShardGrain;
  }

  // True if this rank counts the parameter into the norm, as far as stage and data parallelism
  // decide. Tensors that tensor-parallel ranks share are counted by the first of them.
  bool Counts(const Member& member) const {
    const bool copy =
        stage_.HoldsTiedCopy() && !stage_.HoldsEmbedding() && IsTokenTable(stage_, member);
    return !member.size->frozen && !copy && !variant_.second_holder &&
           (member.size->experts ? variant_.counts_experts : variant_.counts_shared);
  }

  void AddCounted(int bucket, std::int64_t begin, std::int64_t size) {
    out_.counted.resize(std::max(out_.counted.size(), static_cast<std::size_t>(bucket) + 1));
    std::vector<ShardRange>& ranges = out_.counted.back();
    if (!ranges.empty() && ranges.back().end == begin) {
      ranges.back().end = begin + size;
    } else {
      ranges.push_back({begin, begin + size});
    }
  }

  // Places each tensor of a parameter, the first one at `begin`.
  void PlaceTensors(const Member& member, int number, std::int64_t begin) {
    const BlockKind kind = stage_.KindOf(member.block);
    const BlockParameter& parameter = (*lists_)[At(kind)][static_cast<std::size_t>(member.index)];
    std::vector<PackedTensor> packed;
    if (parameter.quantized) packed = PackedTensorsOf(parameter, plan_.tp);
    std::size_t next = 0;  // index into `packed`
    std::int64_t before = 0;
    for (std::size_t i = 0; i < parameter.parts.size(); ++i) {
      const ModelTensor& part = parameter.parts[i];
      ParameterPlace place;
      place.name = IsLayer(kind) ? "layers." + std::to_string(member.block - 1) + "." + part.name
                                 : part.name;
      place.rows = part.rows;
      place.cols = part.cols;
      place.row_end = part.rows;
      place.col_end = part.cols;
      const int copies = parameter.split == SplitAxis::kNone ? 1 : part.Copies(plan_.tp);
      const int pieces = plan_.tp / copies, piece = variant_.tp / copies;
      if (parameter.split == SplitAxis::kRows) {
        SplitRange(part.rows, RowsOfPiece(part, pieces), piece, place.row_begin, place.row_end);
      } else if (parameter.split == SplitAxis::kCols) {
        SplitRange(part.cols, CeilDiv(part.cols, pieces), piece, place.col_begin, place.col_end);
      }
      place.copies = copies;
      place.bucket = number;
      if (next < packed.size() && packed[next].part == i) before = 0, ++next;
      place.offset = parameter.quantized ? begin + packed[next - 1].offset : begin + before;
      place.decays = parameter.decays;
      place.replicated = parameter.split == SplitAxis::kNone && !parameter.experts;
      place.counted =
          Counts(member) && (!place.replicated || variant_.tp == 0) && variant_.tp % copies == 0;
      if (place.counted) {
        AddCounted(number, place.offset,
                   (place.row_end - place.row_begin) * (place.col_end - place.col_begin));
      }
      if (parameter.quantized) {
        place.packed_elements = packed[next - 1].elements;
        place.packed_first = before;
      }
      before += ElementsOf(part, parameter.split, plan_.tp);
      out_.places.push_back(std::move(place));
    }
  }

  const Plan& plan_;
  const Stage& stage_;
  LayoutVariant variant_;
  const ParameterLists* lists_;
  BucketLayout out_;
};

// Both public functions end here, so sizes and full layouts always agree.
BucketLayout LayOut(const ParameterSizes& sizes, const ParameterLists* lists, const Plan& plan,
                    const Stage& stage, const RankCoordinates& at) {
  Builder builder(plan, stage, VariantOf(plan, at), lists);
  for (std::vector<Member>& group : GroupMembers(sizes, plan, stage)) {
    builder.Add(std::move(group));
  }
  BucketLayout layout = builder.Take(sizes);
  MoveShards(plan, at, layout);
  return layout;
}

}  // namespace

BucketLayout LayOutBuckets(const ModelSpec& model, const Plan& plan, const Stage& stage,
                           const RankCoordinates& at) {
  const ParameterLists lists = ListsOf(model, plan, VariantOf(plan, at).ep);
  return LayOut(SizesOf(lists, plan), &lists, plan, stage, at);
}

ParameterSizes SizesOf(const ModelSpec& model, const Plan& plan) {
  return SizesOf(ListsOf(model, plan, 0), plan);
}

std::int64_t OrthogonalParameters(const ModelSpec& model, const Plan& plan) {
  if (plan.optimizer != OptimizerKind::kMuon) return 0;
  const ParameterSizes sizes = SizesOf(model, plan);
  const auto of = [&](BlockKind kind, std::int64_t layers) {
    std::int64_t elements = 0;
    for (const ParameterSize& size : sizes.of_kind[At(kind)]) {
      if (!size.matrices.empty()) elements += size.elements;
    }
    return layers * elements;
  };
  std::int64_t sum = 0;
  for (const auto& [kind, layers] : LayerCounts(model)) sum += of(kind, layers);
  return sum;
}

BucketLayout LayOutSizes(const ParameterSizes& sizes, const Plan& plan, const Stage& stage,
                         const RankCoordinates& at) {
  return LayOut(sizes, nullptr, plan, stage, at);
}

LayoutVariant VariantOf(const Plan& plan, const RankCoordinates& at) {
  LayoutVariant variant;
  variant.tp = at.tp;
  variant.ep = ExpertIndexOf(plan, at) % plan.ep;
  // Without shards and experts each data-parallel rank counts everything, because the norm is not
  // summed over dp. Experts make it a sum over all ranks, so only one rank may count shared state.
  const bool sharded = ShardingOf(plan).optimizer;
  if (!sharded && plan.DealsExperts()) {
    const DataPlace place = DataPlaceOf(plan, at);
    variant.counts_shared = place.replica == 0 && place.shard == 0;
    variant.counts_experts = ExpertPlaceOf(plan, at) == 0;
  }
  // Two pipeline ranks hold these stages whole; the first of them counts their gradients.
  variant.second_holder = plan.StageCopies() == 2 && !sharded && at.pp >= plan.pp / 2;
  return variant;
}

void MoveShards(const Plan& plan, const RankCoordinates& to, BucketLayout& layout) {
  if (!ShardingOf(plan).optimizer) return;
  const int shard = DataPlaceOf(plan, to).shard;
  const int expert_shard = plan.DealsExperts() ? ExpertPlaceOf(plan, to) : shard;
  for (Bucket& bucket : layout.buckets) {
    bucket.shard = bucket.shards == 1 ? 0 : bucket.experts ? expert_shard : shard;
  }
}

ShardRange ShardOf(const Bucket& bucket) {
  const std::int64_t size = bucket.elements / bucket.shards;
  const std::int64_t begin = std::min(bucket.used, size * bucket.shard);
  return {begin, std::min(bucket.used, begin + size)};
}

}  // namespace foretrain

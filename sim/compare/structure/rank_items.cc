#include "sim/compare/structure/rank_items.h"

#include <algorithm>
#include <optional>

#include "sim/compare/structure/operator_calls.h"
#include "traces/unknown_coordinates.h"

namespace foretrain {
namespace {

std::optional<int> LaneOf(const Span& span) {
  if (span.queue == Queue::kHost || span.op_class == OpClass::kHost) return std::nullopt;
  return IsCompute(span.op_class) ? 0 : static_cast<int>(span.op_class);
}

bool TellsMore(OpClass a, OpClass b) {
  if (a == OpClass::kAttention) return true;
  return a == OpClass::kGemm && b == OpClass::kMemoryBound;
}

std::vector<OperatorCall> OperatorsOf(const std::vector<Work>& works, NameCache& names) {
  std::vector<OperatorCall> operators;
  for (const Work& work : works) {
    operators.push_back(
        {.start_ns = work.start_ns,
         .end_ns = work.end_ns,
         .busy_ns = work.busy_ns,
         .pieces = work.spans,
         .is_frame = names.Of(work.op).facts.is_frame,
         .is_heavy = work.op_class == OpClass::kGemm || work.op_class == OpClass::kAttention});
  }
  return operators;
}

}  // namespace

std::map<int, Lanes> WorkByRank(const Timeline& timeline, int step) {
  std::map<int, Lanes> work_of;
  std::map<int, std::unordered_map<OpId, std::size_t>> places_of;
  for (const Span& span : timeline.spans) {
    const auto lane = LaneOf(span);
    if (span.step != step || !lane || !IsValidId(span.op)) continue;
    if (OpNumber(span.op) == kWholeInstruction) continue;
    auto& works = work_of[span.rank][static_cast<std::size_t>(*lane)];
    const auto [at, is_new] =
        places_of[span.rank * kLanes + *lane].try_emplace(span.op, works.size());
    if (is_new) {
      works.push_back({.op = span.op,
                       .start_ns = span.start_ns,
                       .end_ns = span.end_ns,
                       .op_class = span.op_class});
    }
    Work& work = works[at->second];
    work.start_ns = std::min(work.start_ns, span.start_ns);
    work.end_ns = std::max(work.end_ns, span.end_ns);
    work.busy_ns += span.end_ns - span.start_ns;
    work.bytes += span.bytes;
    ++work.spans;
  }
  for (auto& [rank, lanes] : work_of) {
    for (auto& works : lanes) {
      std::stable_sort(works.begin(), works.end(),
                       [](const Work& a, const Work& b) { return a.start_ns < b.start_ns; });
    }
  }
  return work_of;
}

const NameCache::Entry& NameCache::Of(OpId op) {
  const auto [at, is_new] = entries_.try_emplace(NameKey(op));
  if (!is_new) return at->second;
  Entry& entry = at->second;
  const auto numbered = [](auto& numbers, const auto& key) {
    return numbers.try_emplace(key, static_cast<int>(numbers.size())).first->second;
  };
  const Pass pass = UnpackId(op).pass;
  const auto found = timeline_.op_names.find(NameKey(op));
  const std::string name = found == timeline_.op_names.end() ? std::string() : found->second;
  entry.kind = numbered(kinds_, std::pair(pass, name));
  if (found == timeline_.op_names.end()) return entry;
  entry.facts = read_(name);
  entry.name = numbered(names_, name);
  entry.word = numbered(words_, std::pair(pass, name.substr(name.rfind('.') + 1)));
  return entry;
}

// Communication waits for peers, so that bytes, where they are known, tell more than its length.
std::vector<AlignedItem> ItemsOf(const std::vector<Work>& works, NameCache& names) {
  std::vector<AlignedItem> items;
  for (const Work& work : works) {
    const InstructionKey key = UnpackId(work.op);
    const NameCache::Entry& entry = names.Of(work.op);
    AlignedItem item{.op_class = work.op_class, .pass = key.pass};
    if (IsCompute(work.op_class)) {
      item.topics = entry.facts.topics;
      item.hints = entry.facts.hints;
      item.follows = entry.facts.follows;
      item.says_backward = entry.facts.says_backward;
    } else {
      item.transfer = key.kind;
    }
    if (IsBlockKnown(key) && key.kind == InstructionKind::kBlock) item.block = key.block;
    if (IsMicroBatchKnown(key)) item.micro_batch = key.micro_batch;
    item.length = static_cast<double>(IsCompute(work.op_class) ? work.busy_ns : work.bytes);
    item.name = entry.name;
    item.kind = entry.kind;
    item.word = entry.word;
    items.push_back(item);
  }
  return items;
}

// A bundle with attention is attention, and one with a product is a product, however long its other
// parts took on a busy machine. It speaks of the topics of all its parts.
TracedItems TracedItemsOf(const std::vector<Work>& works, NameCache& names) {
  const std::vector<AlignedItem> parts = ItemsOf(works, names);
  const std::vector<OperatorCall> operators = OperatorsOf(works, names);
  const std::vector<std::size_t> outermost = OutermostCalls(operators);
  TracedItems traced{.items = {}, .item_of = std::vector<std::size_t>(works.size())};
  for (std::size_t i = 0; i < works.size(); ++i) {
    if (outermost[i] != i) continue;
    traced.item_of[i] = traced.items.size();
    traced.items.push_back(parts[i]);
  }
  for (std::size_t i = 0; i < works.size(); ++i) {
    const std::size_t place = traced.item_of[outermost[i]];
    traced.item_of[i] = place;
    AlignedItem& item = traced.items[place];
    if (TellsMore(parts[i].op_class, item.op_class)) item.op_class = parts[i].op_class;
    if (outermost[i] == i) continue;
    item.length += parts[i].length;
    if (operators[i].is_frame) continue;
    item.topics |= parts[i].topics;
    item.hints |= parts[i].hints;
    item.says_backward |= parts[i].says_backward;
  }
  return traced;
}

}  // namespace foretrain

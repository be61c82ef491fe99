#include "sim/memory/live_at_peak.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "sim/memory/peak_memory.h"
#include "sim/program/blocks/parameters.h"

namespace foretrain {
namespace {

std::size_t At(std::int64_t index) { return static_cast<std::size_t>(index); }

struct BufferName {
  std::string text;  // "first moment"
  int bucket = -1;   // number of the bucket whose state it holds; -1: none
};

// Names each buffer after its kind of state, or after the first slot that is bound to it.
class Names {
 public:
  Names(const Program& program, const RankProgram& rank) : names_(rank.buffers.size()) {
    for (std::size_t i = 0; i < rank.buckets.size(); ++i) {
      NameBucket(rank.buckets[i], static_cast<int>(i));
    }
    for (const Instruction& instruction : rank.step) {
      const Block& block = program.blocks[At(instruction.block)];
      for (std::size_t slot = 0; slot < block.slots.size(); ++slot) {
        const Binding& binding = rank.bindings[At(instruction.first_binding) + slot];
        if (binding.buffer < 0 || block.slots[slot].base != kNoSlot) continue;
        Set(binding.buffer, block.slots[slot].name + " of " + block.name, -1);
      }
    }
  }

  BufferName Of(const RankProgram& rank, std::size_t buffer) const {
    if (!names_[buffer].text.empty()) return names_[buffer];
    return {std::string(Name(rank.buffers[buffer].category)), -1};
  }

 private:
  // Keeps the first name: state is named before slots of blocks that read it.
  void Set(std::int32_t buffer, std::string_view name, int bucket) {
    if (buffer >= 0 && names_[At(buffer)].text.empty()) {
      names_[At(buffer)] = {std::string(name), bucket};
    }
  }

  void NameBucket(const Bucket& bucket, int number) {
    const std::string_view parameters = bucket.frozen ? "frozen parameters" : "parameters";
    Set(bucket.parameters, parameters, number);
    Set(bucket.gradients, "gradients", number);
    Set(bucket.master, "master weights", number);
    Set(bucket.average, "moving average", number);
    Set(bucket.moment1, "first moment", number);
    Set(bucket.moment2, "second moment", number);
    Set(bucket.absmax1, "scales of the first moment", number);
    Set(bucket.absmax2, "scales of the second moment", number);
    for (const std::int32_t older : bucket.older) Set(older, "older parameters", number);
  }

  std::vector<BufferName> names_;
};

// Describes the part of the model that buckets hold: "embedding, layers 2-5".
class BucketContents {
 public:
  BucketContents(const RankProgram& rank, int layers) : rank_(rank), layers_(layers) {}

  // Blocks are numbered as in ids: 0 the embedding, then layers, then the head and everything after
  // it.
  std::string Of(const std::set<int>& buckets) const {
    std::set<int> blocks;
    bool table = false;
    for (const ParameterPlace& place : rank_.parameters) {
      if (!buckets.contains(place.bucket)) continue;
      const bool is_table = place.name == kTokenTableName;
      table = table || is_table;
      if (!is_table) blocks.insert(BlockOf(place.name));
    }
    const bool experts = std::all_of(buckets.begin(), buckets.end(), [this](int bucket) {
      return rank_.buckets[At(bucket)].experts;
    });
    std::string out = table ? "token table" : "";
    const auto add = [&out](const std::string& text) { out += (out.empty() ? "" : ", ") + text; };
    if (blocks.contains(0)) add("embedding");
    if (const std::string in = LayersIn(blocks); !in.empty()) {
      add((experts ? "experts of " : "") + in);
    }
    if (!blocks.empty() && *blocks.rbegin() > layers_) add("head");
    return out;
  }

 private:
  // Number of the block of a parameter, told by its name.
  int BlockOf(std::string_view name) const {
    constexpr std::string_view kLayers = "layers.";
    if (name.starts_with("embedding.")) return 0;
    if (!name.starts_with(kLayers)) return layers_ + 1;
    int layer = 0;  // counted from 0, blocks of layers from 1
    const std::string_view rest = name.substr(kLayers.size());
    std::from_chars(rest.data(), rest.data() + rest.size(), layer);
    return layer + 1;
  }

  // "layers 1-3, 7"; empty: none.
  std::string LayersIn(const std::set<int>& blocks) const {
    std::string out;
    int count = 0;
    for (auto at = blocks.lower_bound(1); at != blocks.end() && *at <= layers_;) {
      const int first = *at;
      int last = first;
      for (++at; at != blocks.end() && *at <= layers_ && *at == last + 1; ++at) last = *at;
      out += out.empty() ? "" : ", ";
      out += first == last ? std::to_string(first) : fmt::format("{}-{}", first, last);
      count += last - first + 1;
    }
    if (count == 0) return {};
    return (count == 1 ? "layer " : "layers ") + out;
  }

  const RankProgram& rank_;
  const int layers_;
};

// The buffers of one line, while they are counted.
struct Alike {
  LiveTensors tensors;
  std::set<int> buckets;  // buckets whose state they hold
  std::int32_t first_op = -1;
  std::int32_t last_op = -1;
};

// Same rule as LinkedPeak, so that the lines sum to its total.
bool IsLive(const Buffer& buffer, Space space, std::int32_t op, std::int32_t op_count) {
  if (buffer.space != space) return false;
  if (buffer.persistent) return true;
  return buffer.first_op >= 0 && buffer.last_op < op_count && buffer.first_op <= op &&
         op <= buffer.last_op;
}

// Lines by name, bytes and category. Buffers that differ in any of these get lines of their own.
using Lines = std::map<std::tuple<std::string, std::int64_t, Category>, Alike>;

// Names are built for all buffers first, since state and slots name them from different tables.
Lines LinesAt(const Program& program, const RankProgram& of, Space space, std::int32_t op) {
  const Names names(program, of);
  Lines lines;
  for (std::size_t i = 0; i < of.buffers.size(); ++i) {
    const Buffer& buffer = of.buffers[i];
    if (buffer.bytes <= 0 || !IsLive(buffer, space, op, of.op_count)) continue;
    const BufferName name = names.Of(of, i);
    Alike& line = lines[{name.text, buffer.bytes, buffer.category}];
    line.tensors.category = buffer.category;
    ++line.tensors.count;
    line.tensors.bytes += buffer.bytes;
    if (name.bucket >= 0) line.buckets.insert(name.bucket);
    if (buffer.persistent) continue;
    line.first_op = line.first_op < 0 ? buffer.first_op : std::min(line.first_op, buffer.first_op);
    line.last_op = std::max(line.last_op, buffer.last_op);
  }
  return lines;
}

}  // namespace

// A rank has thousands of buffers, so equal ones share a line that says which layers they are of.
// The peak's op comes from LinkedPeak; everything that lives at it is listed.
LiveAtPeak FindLiveAtPeak(const Program& program, std::size_t rank, Space space) {
  const RankProgram& of = program.ranks[rank];
  const PeakMemory peak = LinkedPeak(of, space);
  const std::vector<OpRef> refs = OpRefs(program, of);
  const auto layers = static_cast<int>(program.model.AllLayers());
  const auto op_text = [&](std::int32_t op) {
    const OpRef ref = refs[At(op)];
    return fmt::format("{} of {}", OpAt(program, of, ref).name,
                       Describe(PackId(of.step[At(ref.instruction)].key), layers));
  };
  const BucketContents contents(of, layers);
  Lines lines = LinesAt(program, of, space, peak.op);
  LiveAtPeak out{of.rank, peak.total, peak.op >= 0 ? op_text(peak.op) : std::string(), {}};
  for (auto& [key, line] : lines) {
    line.tensors.name = std::get<0>(key);
    const std::string held = contents.Of(line.buckets);
    if (!held.empty()) line.tensors.name += " of " + held;
    if (line.first_op >= 0) {
      line.tensors.since = op_text(line.first_op);
      line.tensors.until = op_text(line.last_op);
    }
    out.tensors.push_back(std::move(line.tensors));
  }
  std::stable_sort(out.tensors.begin(), out.tensors.end(),
                   [](const LiveTensors& a, const LiveTensors& b) { return a.bytes > b.bytes; });
  return out;
}

}  // namespace foretrain

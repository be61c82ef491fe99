#include "sim/memory/live_at_peak.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "sim/memory/linked_peak.h"

namespace foretrain {
namespace {

std::size_t At(std::int64_t index) { return static_cast<std::size_t>(index); }

// What each buffer is called.
class Names {
 public:
  Names(const Program& program, const RankProgram& rank) : names_(rank.buffers.size()) {
    for (const Bucket& bucket : rank.buckets) NameBucket(bucket);
    for (const Instruction& instruction : rank.step) {
      const Block& block = program.blocks[At(instruction.block)];
      for (std::size_t slot = 0; slot < block.slots.size(); ++slot) {
        const Binding& binding = rank.bindings[At(instruction.first_binding) + slot];
        if (binding.buffer < 0 || block.slots[slot].base != kNoSlot) continue;
        Set(binding.buffer, block.slots[slot].name + " of " + block.name);
      }
    }
  }

  std::string Of(const RankProgram& rank, std::size_t buffer) const {
    return names_[buffer].empty() ? std::string(Name(rank.buffers[buffer].category))
                                  : names_[buffer];
  }

 private:
  void Set(std::int32_t buffer, std::string_view name) {
    if (buffer >= 0 && names_[At(buffer)].empty()) names_[At(buffer)] = name;
  }

  void NameBucket(const Bucket& bucket) {
    Set(bucket.parameters, "parameters");
    Set(bucket.gradients, "gradients");
    Set(bucket.master, "master weights");
    Set(bucket.moment1, "first moment");
    Set(bucket.moment2, "second moment");
    Set(bucket.absmax1, "scales of the first moment");
    Set(bucket.absmax2, "scales of the second moment");
    for (const std::int32_t older : bucket.older) Set(older, "older parameters");
  }

  std::vector<std::string> names_;
};

// Buffers of one line while they are counted.
struct Alike {
  LiveTensors tensors;
  std::int32_t first_op = -1;
  std::int32_t last_op = -1;
};

bool IsLive(const Buffer& buffer, Space space, std::int32_t op, std::int32_t op_count) {
  if (buffer.space != space) return false;
  if (buffer.persistent) return true;
  return buffer.first_op >= 0 && buffer.last_op < op_count && buffer.first_op <= op &&
         op <= buffer.last_op;
}

}  // namespace

LiveAtPeak FindLiveAtPeak(const Program& program, std::size_t rank, Space space) {
  const RankProgram& of = program.ranks[rank];
  const LinkedPeakMemory peak = LinkedPeak(of, space);
  const std::vector<OpRef> refs = OpRefs(program, of);
  const auto op_text = [&](std::int32_t op) {
    const OpRef ref = refs[At(op)];
    return fmt::format("{} of {}", OpAt(program, of, ref).name,
                       Describe(PackId(of.step[At(ref.instruction)].key),
                                static_cast<int>(program.model.layers)));
  };
  const Names names(program, of);
  std::map<std::tuple<std::string, std::int64_t, Category>, Alike> lines;
  for (std::size_t i = 0; i < of.buffers.size(); ++i) {
    const Buffer& buffer = of.buffers[i];
    if (buffer.bytes <= 0 || !IsLive(buffer, space, peak.op, of.op_count)) continue;
    Alike& line = lines[{names.Of(of, i), buffer.bytes, buffer.category}];
    line.tensors.category = buffer.category;
    ++line.tensors.count;
    line.tensors.bytes += buffer.bytes;
    if (buffer.persistent) continue;
    line.first_op = line.first_op < 0 ? buffer.first_op : std::min(line.first_op, buffer.first_op);
    line.last_op = std::max(line.last_op, buffer.last_op);
  }
  LiveAtPeak out{of.rank, peak.total, peak.op >= 0 ? op_text(peak.op) : std::string(), {}};
  for (auto& [key, line] : lines) {
    line.tensors.name = std::get<0>(key);
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

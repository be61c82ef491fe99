#include "sim/program/lower/rank/tensor_table.h"

#include "base/result.h"

namespace foretrain {
namespace {

// Packs a name into one number, so that a look-up hashes 8 bytes. The ranges of TensorName keep the
// fields apart.
std::uint64_t Pack(const TensorName& name) {
  const auto field = [](int value) { return static_cast<std::uint64_t>(value); };
  return ((static_cast<std::uint64_t>(name.kind) << 13 | field(name.block)) << 18 |
          field(name.micro_batch))
             << 16 |
         field(name.index);
}

}  // namespace

// Rings are looked up without the micro-batch, which only selects the place.
int TensorTable::Find(const TensorName& name) const {
  if (!rings_.empty()) {
    const auto ring = rings_.find(Pack({name.kind, name.block, 0, name.index}));
    if (ring != rings_.end()) {
      const auto& [places, buffers] = ring->second;
      return buffers[static_cast<std::size_t>(places.PlaceOf(name.micro_batch))];
    }
  }
  const auto found = buffers_.find(Pack(name));
  return found == buffers_.end() ? -1 : found->second;
}

int TensorTable::At(const TensorName& name) const {
  const int buffer = Find(name);
  FT_CHECK(buffer >= 0);
  return buffer;
}

int TensorTable::Put(const TensorName& name, int buffer) {
  const bool is_new = buffers_.try_emplace(Pack(name), buffer).second;
  FT_CHECK(is_new);
  return buffer;
}

void TensorTable::PutRing(const TensorName& name, const Ring& ring, std::vector<int> buffers) {
  FT_CHECK(static_cast<int>(buffers.size()) == ring.Size());
  const bool is_new =
      rings_.try_emplace(Pack({name.kind, name.block, 0, name.index}), ring, std::move(buffers))
          .second;
  FT_CHECK(is_new);
}

void TensorTable::Drop(const TensorName& name) {
  const std::size_t erased = buffers_.erase(Pack(name));
  FT_CHECK(erased == 1);
}

}  // namespace foretrain

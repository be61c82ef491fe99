#include "runtime/processes/transfer_codes.h"

#include "base/io/crc32c.h"
#include "base/io/sha256.h"
#include "runtime/processes/wire/packing.h"

namespace foretrain {

TransferCodes::TransferCodes(TransferCheck check, const std::string& run_key, const ChannelKey& key,
                             int member)
    : check_(check) {
  if (check != TransferCheck::kHmac) return;
  const auto key_of = [&](int from, int to) {
    return HmacSha256(run_key)
        .Add(Pack(std::string("tensors"), key.Text(""), std::int32_t{from}, std::int32_t{to}))
        .Finish();
  };
  for (int other = 0; other < static_cast<int>(key.members.size()); ++other) {
    sent_.push_back({key_of(member, other)});
    received_.push_back({key_of(other, member)});
  }
}

std::string TransferCodes::Of(const Piece& piece) {
  const std::string_view bytes(piece.at, static_cast<std::size_t>(piece.bytes));
  if (check_ == TransferCheck::kCrc32c) return Pack(Crc32c(bytes));
  const auto at = static_cast<std::size_t>(piece.member);
  Direction& direction = piece.sends ? sent_[at] : received_[at];
  return HmacSha256(direction.key).Add(Pack(direction.number++)).Add(bytes).Finish();
}

}  // namespace foretrain

#include "runtime/ucx/ucx_mesh.h"

#include <map>
#include <utility>

namespace foretrain {

Result<Transports> ConnectByUcx(const WorldContext& context, ProcessGroup& group, const Ucx& ucx,
                                const std::vector<ChannelKey>& keys) {
  const int rank = group.rank();
  const auto name_of = [](const ChannelKey& key) { return key.Text("ucx"); };
  std::map<ChannelKey, std::unique_ptr<UcxTransport>> made;
  for (const ChannelKey& key : keys) {
    FT_ASSIGN(made[key], ucx.Make(key.MemberOf(rank), static_cast<int>(key.members.size())));
    FT_TRY(group.Put(rank, name_of(key), made[key]->address()));
  }
  Transports transports;
  for (auto& [key, transport] : made) {
    for (const int other : key.members) {
      if (other == rank) continue;
      FT_ASSIGN(const std::string address,
                group.Get(other, name_of(key), [&] { return context.control.Aborted(); }));
      const auto connected = transport->Connect(key.MemberOf(other), address);
      if (connected.has_value()) continue;
      return Fail(connected.error().code, "rank " + std::to_string(rank) + " connects to rank " +
                                              std::to_string(other) + ": " +
                                              connected.error().message);
    }
    transports[key] = std::move(transport);
  }
  return transports;
}

}  // namespace foretrain

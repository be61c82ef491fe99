// Expert choices of a run, for tests that record or replace them. Routing itself: FtRoute.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "traces/kinds.h"

namespace foretrain {

// Identifies a choice: a rank's tokens of one micro-batch in one layer.
struct RoutingSite {
  std::int64_t step = 0;
  int rank = 0;
  int dp = 0;
  int cp = 0;
  int tp = 0;
  int block = 0;
  int micro_batch = 0;
  Pass pass = Pass::kNone;  // recomputation chooses again
  std::int64_t tokens = 0;  // of this rank
  std::int64_t per_token = 0;
  std::string_view router;  // the op's name; MTP layers share a block
};

// Called by threads of all ranks concurrently.
class RoutingScript {
 public:
  virtual ~RoutingScript() = default;
  // Fills chosen [tokens, per_token] with experts to use instead of the router's; the router's
  // scores still weight them. False leaves the choice to the router.
  virtual bool Replay(const RoutingSite& site, std::span<std::int32_t> chosen) = 0;
  virtual void Record(const RoutingSite& site, std::span<const std::int32_t> chosen) = 0;
};

}  // namespace foretrain

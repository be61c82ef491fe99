// Communicators of a run whose processes form a group.
#include <memory>
#include <utility>

#include "runtime/processes/process_group.h"

namespace foretrain {
namespace {

class GroupWorld : public RankWorld {
 public:
  GroupWorld(std::shared_ptr<ProcessGroup> group, std::unique_ptr<RankWorld> inner)
      : group_(std::move(group)), inner_(std::move(inner)) {}
  ~GroupWorld() override { group_->Leave(); }
  CommunicatorSet& Rank(int rank) override { return inner_->Rank(rank); }

 private:
  const std::shared_ptr<ProcessGroup> group_;
  std::unique_ptr<RankWorld> inner_;
};

}  // namespace

WorldMaker InGroup(std::shared_ptr<ProcessGroup> group, WorldMaker inner) {
  return [group, inner](const WorldContext& context) -> Result<std::unique_ptr<RankWorld>> {
    FT_TRY(group->Enter(context.clock, context.control));
    auto made = inner(context);
    if (!made.has_value()) {
      group->TellFailure(made.error());
      group->Leave();
      // If another process failed first, its error is the run's.
      if (auto first = context.control.FirstError())
        return tl::unexpected<Error>(*std::move(first));
      return made;
    }
    return std::unique_ptr<RankWorld>(std::make_unique<GroupWorld>(group, *std::move(made)));
  };
}

}  // namespace foretrain

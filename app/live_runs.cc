#include "app/live_runs.h"

#include "app/stored_runs.h"

namespace foretrain {

Result<LiveRanks> LiveOfStoredRun(const StoreRequest& runs, Space space) {
  FT_ASSIGN(const StoreReader reader, StoreReader::Open(runs.path));
  LoadOptions options;
  options.timeline = false;
  FT_ASSIGN(const StoredRun run, reader.LoadRun(runs.run, options));
  FT_ASSIGN(const StoredContext stored, ContextOf(reader, run));
  FT_ASSIGN(const Program program,
            Compile(stored.context.model, stored.plan, {.ranks = RankChoice::kClasses}));
  LiveRanks live;
  live.stands_for.assign(program.stands_for.begin(), program.stands_for.end());
  for (std::size_t rank = 0; rank < program.ranks.size(); ++rank) {
    live.ranks.push_back(FindLiveAtPeak(program, rank, space));
  }
  return live;
}

}  // namespace foretrain

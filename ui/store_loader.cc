#include "ui/store_loader.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <functional>
#include <utility>

namespace foretrain::ui {
namespace {

constexpr double kReloadSeconds = 1.0;
// Reading again takes at most a fifth of a processor.
constexpr double kRestPerWork = 4.0;

}  // namespace

// What was dropped or asked for; empty: nothing.
StoreLoader::Read StoreLoader::OpenNext(DesktopState& state) {
  StoreRequest request;
  const bool dropped = !state.dropped.empty();
  if (dropped) {
    request.path = state.dropped.front();
    state.dropped.erase(state.dropped.begin());
  } else if (state.wanted_store.has_value()) {
    request = *std::exchange(state.wanted_store, std::nullopt);
  } else {
    return {};
  }
  const bool goes_on = std::exchange(more_, dropped && !state.dropped.empty());
  several_ = dropped && (goes_on || more_);
  if (!goes_on) {
    for (const std::string& refused : refused_) std::erase(state.notices, refused);
    refused_.clear();
  }
  state.loading = request.path;
  job_ = Job::kOpen;
  return [access = access_, request] { return access->Open(request); };
}

// What is to be done next; empty: nothing.
StoreLoader::Read StoreLoader::NextRead(double now_s, DesktopState& state) {
  if (Read open = OpenNext(state)) return open;
  const std::pair asked(state.model_number, state.looked_at);
  if (asked_for_ != asked) {
    asked_for_ = asked;
    auto parts =
        PartsToLoad(*state.model, state.looked_at.has_value() ? &*state.looked_at : nullptr);
    if (parts.has_value()) {
      job_ = Job::kRead;
      state.reading = true;
      return [access = access_, parts = *std::move(parts)] { return access->Read(parts); };
    }
  }
  if (!follows_ || state.store.empty() || now_s < next_s_) return {};
  job_ = Job::kNewer;
  return [access = access_] { return access->Newer(); };
}

bool StoreLoader::Start(double now_s, DesktopState& state) {
  Read read = NextRead(now_s, state);
  if (!read) return false;
  started_s_ = now_s;
  coming_ = std::async(
      std::launch::async,
      [read = std::move(read), options = state.wanted, path = state.store,
       run = state.shown_run]() -> Result<Loaded> {
        try {
          FT_ASSIGN(std::unique_ptr<OpenedStore> store, read());
          if (store == nullptr) return nullptr;
          const bool same = store->path == path && store->run == run;
          return std::make_unique<PreparedStore>(Prepare(*std::move(store), options, same));
        } catch (const std::exception& error) {
          return Fail(ErrorCode::kIo, error.what());
        }
      });
  return job_ != Job::kNewer;
}

// One notice that says how far it is, for as long as it is under way. Returns whether it is
// another.
bool StoreLoader::ShowDoing(DesktopState& state) {
  if (!doing_) return false;
  std::string now = job_ == Job::kOpen && coming_.valid() ? doing_() : std::string();
  if (now == shown_) return false;
  std::erase(state.notices, shown_);
  if (!now.empty()) state.notices.push_back(now);
  shown_ = std::move(now);
  return true;
}

// Shows `error` in place of the one before; empty: none. Returns whether that is another.
bool StoreLoader::Tell(std::string error, DesktopState& state) {
  if (error == error_) return false;
  std::erase(state.notices, error_);
  error_ = std::move(error);
  if (!error_.empty()) state.notices.push_back(error_);
  return true;
}

// Of several files each that cannot be opened has a notice, for others may be shown by now.
bool StoreLoader::Refuse(const std::string& error, DesktopState& state) {
  if (several_) {
    refused_.push_back("Not opened: " + error);
    state.notices.push_back(refused_.back());
  } else {
    state.store_error = error;
    state.choosing_store = true;
  }
  return true;
}

bool StoreLoader::Take(Result<Loaded> loaded, DesktopState& state) {
  state.loading.clear();
  state.reading = false;
  if (!loaded.has_value() && job_ == Job::kOpen) return Refuse(loaded.error().message, state);
  if (!loaded.has_value()) {
    return Tell(
               (job_ == Job::kRead ? "Spans cannot be read: " : "The runs cannot be read again: ") +
                   loaded.error().message,
               state) ||
           job_ == Job::kRead;
  }
  if (*loaded == nullptr) {
    // What could not be read of the runs is as it was.
    return error_.starts_with("Spans") ? false : Tell({}, state);
  }
  Tell({}, state);
  state.TakeStore(std::move(**loaded));
  // Also where the store that was asked for is the one that is open.
  if (job_ == Job::kOpen) state.choosing_store = false;
  return true;
}

bool StoreLoader::Refresh(double now_s, DesktopState& state) {
  if (access_ == nullptr) return false;
  const bool started = !coming_.valid() && Start(now_s, state);
  const bool there =
      coming_.valid() && coming_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  bool changed = ShowDoing(state) || started;
  if (!there) return changed;
  next_s_ = now_s + std::max(kReloadSeconds, kRestPerWork * (now_s - started_s_));
  changed = Take(coming_.get(), state) || changed;
  return ShowDoing(state) || changed;
}

}  // namespace foretrain::ui

#include "ui/store_loader.h"

#include <chrono>
#include <exception>
#include <functional>
#include <utility>

namespace foretrain::ui {
namespace {

constexpr double kReloadSeconds = 1.0;

}  // namespace

void StoreLoader::Start(double now_s, DesktopState& state) {
  std::function<Result<std::unique_ptr<OpenedStore>>()> read;
  if (state.wanted_store.has_value()) {
    read = [access = access_, request = *state.wanted_store] { return access->Open(request); };
    state.loading = state.wanted_store->path;
    state.wanted_store.reset();
    opening_ = true;
  } else if (!state.store.empty() && now_s >= next_s_) {
    read = [access = access_] { return access->Newer(); };
    opening_ = false;
  } else {
    return;
  }
  coming_ = std::async(
      std::launch::async,
      [read = std::move(read), options = state.model->options, path = state.store,
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
}

// One notice that says how far it is, for as long as it is under way.
void StoreLoader::ShowDoing(DesktopState& state) {
  if (!doing_) return;
  std::string now = opening_ && coming_.valid() ? doing_() : std::string();
  if (now == shown_) return;
  std::erase(state.notices, shown_);
  if (!now.empty()) state.notices.push_back(now);
  shown_ = std::move(now);
}

void StoreLoader::Take(Result<Loaded> loaded, DesktopState& state) {
  std::erase(state.notices, error_);
  error_.clear();
  state.loading.clear();
  if (!loaded.has_value()) {
    if (opening_) {
      state.store_error = loaded.error().message;
      state.choosing_store = true;
    } else {
      error_ = "The runs cannot be read again: " + loaded.error().message;
      state.notices.push_back(error_);
    }
    return;
  }
  if (*loaded != nullptr) state.TakeStore(std::move(**loaded));
}

void StoreLoader::Refresh(double now_s, DesktopState& state) {
  if (access_ == nullptr) return;
  if (!coming_.valid()) Start(now_s, state);
  const bool there =
      coming_.valid() && coming_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  ShowDoing(state);
  if (!there) return;
  next_s_ = now_s + kReloadSeconds;
  Take(coming_.get(), state);
  ShowDoing(state);
}

}  // namespace foretrain::ui

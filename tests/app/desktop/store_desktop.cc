#include "tests/app/desktop/store_desktop.h"

#if FORETRAIN_HAVE_UI
#include <algorithm>
#include <cctype>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "tests/app/commands/small_run.h"
#include "ui/view/screens/view_table.h"

namespace foretrain {
namespace {

constexpr std::size_t kPage = 8192;
constexpr int kMaxWaits = 10'000;  // ten seconds: a longer load is stuck

// Whether "nan" or "inf" appears as a word.
bool HoldsNoNumber(std::string_view label) {
  const auto letter = [&label](std::size_t at) {
    return at < label.size() && std::isalpha(static_cast<unsigned char>(label[at])) != 0;
  };
  for (const std::string_view word : {"nan", "inf"}) {
    for (std::size_t at = label.find(word); at != std::string_view::npos;
         at = label.find(word, at + 1)) {
      if (!letter(at + 3) && (at == 0 || !letter(at - 1))) return true;
    }
  }
  return false;
}

void FlipBits(std::string& bytes, std::mt19937_64& random) {
  for (std::uint64_t bits = 1 + random() % 8; bits > 0; --bits) {
    const std::size_t at = random() % bytes.size();
    bytes[at] = static_cast<char>(bytes[at] ^ (1 << (random() % 8)));
  }
}

// Changes some of the first 100 bytes, the header of the file.
void ChangeHeader(std::string& bytes, std::mt19937_64& random) {
  for (std::uint64_t fields = 1 + random() % 3; fields > 0; --fields) {
    const std::size_t at = random() % 100;
    bytes[at] = static_cast<char>(bytes[at] + 1 + random() % 255);
  }
}

}  // namespace

std::string DamagedStore(const std::string& bytes, unsigned seed) {
  std::mt19937_64 random(seed);
  std::string damaged = bytes;
  if (seed % 3 == 0) FlipBits(damaged, random);
  if (seed % 3 == 1) damaged.resize(kPage * (random() % (bytes.size() / kPage)));
  if (seed % 3 == 2) ChangeHeader(damaged, random);
  if (damaged == bytes) FlipBits(damaged, random);
  return damaged;
}

void StoreDesktop::SetUp() {
  auto view = ui::HeadlessView::Create({1000, 700, 1}, {});
  if (!view.has_value()) GTEST_SKIP() << view.error().message;
  view_ = *std::move(view);
  const ProgramEnd train =
      RunForetrain(folder_.path(), SmallTraining(folder_) + "--steps 3 --store good.db");
  ASSERT_EQ(train.code, 0) << train.errors;
  good_ = folder_.Read("good.db");
  ASSERT_GT(good_.size(), 4 * kPage);
  desktop_ = std::make_unique<ui::Desktop>(nullptr);
  loader_ = std::make_unique<ui::StoreLoader>(&stores_);
}

void StoreDesktop::WriteStore(const std::string& name, const std::string& bytes) {
  for (const char* const end : {"", "-wal", "-shm"}) std::filesystem::remove(PathOf(name) + end);
  std::ofstream(PathOf(name), std::ios::binary) << bytes;
}

void StoreDesktop::Settle() {
  last_ = view_->Advance(*desktop_);
  for (int i = 0; i < kMaxWaits; ++i) {
    loader_->Refresh(now_s_, state());
    if (!loader_->IsBusy()) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  ASSERT_FALSE(loader_->IsBusy()) << "it reads for ten seconds";
  last_ = view_->Advance(*desktop_);
  last_ = view_->Advance(*desktop_);
}

void StoreDesktop::Ask(const std::string& name) {
  state().stores.error.clear();
  state().stores.wanted = StoreRequest{.path = PathOf(name)};
  Settle();
}

void StoreDesktop::Later(double seconds) {
  now_s_ += seconds;
  Settle();
}

void StoreDesktop::ExpectSenseInEveryView() {
  const std::string before(desktop_->view());
  for (const ui::ViewEntry& entry : ui::ViewTable()) {
    ASSERT_TRUE(desktop_->Show(entry.name).has_value());
    last_ = view_->Advance(*desktop_);
    EXPECT_FALSE(last_.labels.empty());
    for (const std::string& label : last_.labels) EXPECT_FALSE(HoldsNoNumber(label)) << label;
  }
  ASSERT_TRUE(desktop_->Show(before).has_value());
  last_ = view_->Advance(*desktop_);
}

bool StoreDesktop::Shows(std::string_view text) const {
  return std::any_of(last_.labels.begin(), last_.labels.end(), [text](const std::string& label) {
    return label.find(text) != std::string::npos;
  });
}

std::string StoreDesktop::Messages() {
  std::string all = state().stores.error;
  for (const std::string& notice : state().notices) all += "\n" + notice;
  return all;
}

void DamagedStores::OpenDamaged(unsigned seed) {
  WriteStore("damaged.db", DamagedStore(good_, seed));
  Ask("damaged.db");
  if (state().stores.error.empty()) {
    // The damage lies where nothing is read.
    EXPECT_EQ(state().session.shown().path, PathOf("damaged.db"));
  } else {
    ++refused_;
    EXPECT_TRUE(desktop_->ShowsStores());
    const std::string& error = state().stores.error;
    const std::size_t named = error.find("damaged.db");
    EXPECT_NE(named, std::string::npos) << error;
    EXPECT_GT(error.size(), named + std::string("damaged.db: ").size() + 8) << error;
    EXPECT_TRUE(Shows("damaged.db"));
  }
  ExpectSenseInEveryView();
  Ask("good.db");
  EXPECT_EQ(state().stores.error, "");
  EXPECT_EQ(state().session.shown().path, PathOf("good.db"));
  EXPECT_TRUE(Shows("rank 0"));
}

void DamagedStores::ExpectEachIsTold(unsigned first, unsigned count) {
  for (unsigned seed = first; seed < first + count && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    OpenDamaged(seed);
  }
  // Truncation and most changes of the header make a store unreadable.
  EXPECT_GT(refused_, static_cast<int>(count) / 3);
}

}  // namespace foretrain
#endif

#include "ui/view_link.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

namespace foretrain {
namespace {

using testing::HasSubstr;

ViewLink Sample() {
  ViewLink link;
  link.store = {.path = "runs.db", .run = 7, .against = 3};
  link.view = "memory";
  link.step = 12;
  link.wall_clock = link.queues = link.light = true;
  link.window_start_s = 0.0012;
  link.window_end_s = 0.0019;
  link.moment_s = 0.0015;
  return link;
}

TEST(ViewLink, ReadsBackWhatItWrote) {
  for (const ViewLink& link : {Sample(), ViewLink{}}) {
    const auto again = ViewLinkFromJson(ToJson(link), "l.ftlink");
    ASSERT_TRUE(again.has_value()) << again.error().message;
    EXPECT_EQ(*again, link);
  }
  EXPECT_EQ(ToJson(ViewLink{}), "{\n  \"foretrain_link\": 1,\n  \"view\": \"compare\"\n}\n");
}

TEST(ViewLink, RefusesWhatIsNoLink) {
  const auto why = [](const char* text) {
    const auto link = ViewLinkFromJson(text, "l.ftlink");
    return link.has_value() ? std::string() : link.error().message;
  };
  EXPECT_THAT(why("SQLite format 3"), HasSubstr("l.ftlink"));
  EXPECT_THAT(why("{}"), HasSubstr("foretrain_link"));
  EXPECT_THAT(why(R"({"foretrain_link": 2})"), HasSubstr("foretrain_link"));
  EXPECT_THAT(why(R"({"foretrain_link": 1, "run": -1})"), HasSubstr("run"));
  EXPECT_THAT(why(R"({"foretrain_link": 1, "colour": "red"})"), HasSubstr("colour"));
  EXPECT_THAT(why(R"({"foretrain_link": 1, "step": 3000000000})"), HasSubstr("step"));
}

TEST(ViewLink, FindsItsStoreBesideItself) {
  ViewLink link;
  link.store.path = "runs.db";
  EXPECT_EQ(StoreOfLink(link, "l.ftlink"), "runs.db");
  EXPECT_EQ(StoreOfLink(link, "/shared/a/l.ftlink"), "/shared/a/runs.db");
  link.store.path = "/data/runs.db";
  EXPECT_EQ(StoreOfLink(link, "/shared/a/l.ftlink"), "/data/runs.db");
  link.store.path.clear();
  EXPECT_EQ(StoreOfLink(link, "/shared/a/l.ftlink"), "");
}

TEST(ViewLink, NamesAStoreInItsOwnFolderWithoutIt) {
  const std::string folder = testing::TempDir() + "view_link";
  std::filesystem::create_directories(folder + "/other");
  EXPECT_EQ(StoreForLink(folder + "/runs.db", folder + "/l.ftlink"), "runs.db");
  EXPECT_EQ(StoreForLink(folder + "/other/../runs.db", folder + "/l.ftlink"), "runs.db");
  EXPECT_EQ(StoreForLink(folder + "/runs.db", folder + "/other/l.ftlink"),
            std::filesystem::weakly_canonical(folder + "/runs.db").string());
  EXPECT_EQ(StoreForLink("", folder + "/l.ftlink"), "");
}

}  // namespace
}  // namespace foretrain

// The page and its files, as a browser gets them.
#include "serve/assets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>
#include <set>

#include "serve_fixture.h"

namespace strobe::serve {
namespace {

using testing::HasSubstr;
using testing::Not;

using AssetsTest = ServeTest;

const std::vector<std::pair<std::string, std::string>> kBrowser = {{"Accept", "text/html,*/*;q=0.8"}};

TEST_F(AssetsTest, BrowsersGetThePageAndOthersTheEndpoints) {
  start();
  const ClientResponse page = request(port_, "GET", "/", "", kBrowser);
  EXPECT_EQ(page.status, 200);
  EXPECT_EQ(page.headers.at("content-type"), "text/html; charset=utf-8");
  EXPECT_EQ(page.headers.at("vary"), "Accept");
  EXPECT_THAT(page.body, HasSubstr("<!doctype html>"));
  const ClientResponse list = request(port_, "GET", "/");
  EXPECT_EQ(list.headers.at("content-type"), "text/plain; charset=utf-8");
  EXPECT_EQ(list.headers.at("vary"), "Accept");
  EXPECT_THAT(list.body, HasSubstr("POST /v1/chat/completions"));
  EXPECT_EQ(request(port_, "GET", "/page/nothing.js", "", kBrowser).status, 404);
}

TEST_F(AssetsTest, FilesHaveTypesAndMayDoNothingElsewhere) {
  start();
  const std::vector<std::pair<std::string, std::string>> expected = {
      {"/page/page.css", "text/css; charset=utf-8"},
      {"/page/main.js", "text/javascript; charset=utf-8"},
      {"/page/icon.svg", "image/svg+xml"}};
  for (const auto& [path, type] : expected) {
    EXPECT_EQ(request(port_, "GET", path).headers.at("content-type"), type) << path;
  }
  for (const Asset& asset : assets()) {
    const ClientResponse response = request(port_, "GET", asset.path, "", kBrowser);
    EXPECT_EQ(response.body, asset.body) << asset.path;
    EXPECT_EQ(response.headers.at("x-content-type-options"), "nosniff");
    const std::string& policy = response.headers.at("content-security-policy");
    EXPECT_THAT(policy, HasSubstr("default-src 'none'"));
    EXPECT_THAT(policy, HasSubstr("script-src 'self'"));
    EXPECT_THAT(policy, Not(HasSubstr("unsafe"))) << "no inline scripts or styles";
  }
}

TEST_F(AssetsTest, WhatTheClientHasIsNotSentAgain) {
  start();
  HttpClient client(port_);
  std::set<std::string> tags;
  for (const Asset& asset : assets()) {
    client.send("GET", asset.path, "", kBrowser);
    const ClientResponse first = client.receive();
    const std::string tag = first.headers.at("etag");
    EXPECT_TRUE(tags.insert(tag).second) << asset.path << " has the tag of another file";
    EXPECT_EQ(first.headers.at("cache-control"), "no-cache");
    for (const std::string& known : {tag, "W/" + tag, "\"other\", " + tag}) {
      const auto headers = std::vector<std::pair<std::string, std::string>>{kBrowser[0], {"If-None-Match", known}};
      client.send("GET", asset.path, "", headers);
      const ClientResponse again = client.receive(true);
      EXPECT_EQ(again.status, 304) << asset.path;
      EXPECT_EQ(again.headers.at("etag"), tag);
      EXPECT_FALSE(again.headers.contains("content-length"));
    }
    client.send("GET", asset.path, "", {kBrowser[0], {"If-None-Match", "\"other\""}});
    EXPECT_EQ(client.receive().body, first.body) << asset.path;
  }
}

// Each file is used by another, each path that a file names is served, and none is elsewhere.
TEST_F(AssetsTest, ThePageIsComplete) {
  start();
  std::set<std::string> there, used = {"/"};
  const std::regex reference(R"re((?:src|href)="([^"#]+)"|from "\./([^"]+)"|url\(([^)]+)\))re");
  for (const Asset& asset : assets()) {
    there.insert(asset.path);
    const std::string body(asset.body);
    for (auto found = std::sregex_iterator(body.begin(), body.end(), reference); found != std::sregex_iterator();
         ++found) {
      used.insert((*found)[2].matched ? "/page/" + (*found)[2].str() : (*found)[1].str() + (*found)[3].str());
    }
  }
  for (const std::string& path : there) EXPECT_TRUE(used.contains(path)) << path << " is used by nobody";
  for (const std::string& path : used) {
    EXPECT_TRUE(path.starts_with('/')) << path << " is elsewhere";
    EXPECT_EQ(request(port_, "GET", path, "", kBrowser).status, 200) << path;
  }
}

}  // namespace
}  // namespace strobe::serve

// A client of Touchline's API for Android, with OkHttp 5, kotlinx.serialization and coroutines. docs/for-apps.md explains it.
// It needs com.squareup.okhttp3:okhttp, org.jetbrains.kotlinx:kotlinx-serialization-json with its compiler plugin, and
// org.jetbrains.kotlinx:kotlinx-coroutines-core.

import java.io.File
import java.io.IOException
import java.net.URLEncoder
import java.time.Instant
import java.util.concurrent.TimeUnit.SECONDS
import kotlin.random.Random
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.delay
import kotlinx.coroutines.withContext
import kotlinx.serialization.ExperimentalSerializationApi
import kotlinx.serialization.Serializable
import kotlinx.serialization.SerializationException
import kotlinx.serialization.json.*
import okhttp3.*
import okhttp3.HttpUrl.Companion.toHttpUrl
import okhttp3.MediaType.Companion.toMediaType
import okhttp3.RequestBody.Companion.toRequestBody

@Serializable data class Data<T>(val data: T)
@Serializable data class Page<T, M>(val data: List<T>, val meta: M)
@Serializable data class Pages(val currentPage: Int, val lastPage: Int, val total: Int)
@Serializable data class Code(val expiresIn: Int)
@Serializable data class User(val id: Long, val username: String, val name: String? = null)
@Serializable data class Chat(val userId: String, val accessToken: String, val deviceId: String, val homeserverUrl: String? = null)
@Serializable data class Login(val user: User, val token: String, val matrixCredentials: Chat? = null)
@Serializable data class Team(val id: Long, val name: String, val logo: String? = null)
@Serializable data class Score(val home: Int, val away: Int)
@Serializable data class Picks(val home: Int, val draw: Int, val away: Int)
@Serializable data class Membership(val roomId: String, val membership: String)
@Serializable data class Prediction(
    val id: Long, val eventId: Long, val prediction: String, val scorePrediction: Score? = null, val confidence: Int,
    val pointsEarned: Int? = null, val reason: String? = null, val note: String? = null,
)
@Serializable data class Match(
    val id: Long, val homeTeam: Team, val awayTeam: Team, val startTime: String, val status: String, val homeScore: Int? = null,
    val awayScore: Int? = null, val chatRoomId: String, val myPrediction: Prediction? = null, val picks: Picks? = null,
) { val kickOff: Instant get() = Instant.parse(startTime) }
@Serializable data class Row(val rank: Int, val user: User, val points: Int, val exact: Int, val moved: Int? = null)
@Serializable data class Board(val me: Row? = null, val total: Int, val asOf: String? = null, val nextCursor: String? = null)
@Serializable data class Problem(
    val message: String = "Something went wrong.", val code: String = "", val errors: Map<String, List<String>> = emptyMap(),
    val retryAfter: Long = 0,
)

/** An error response. Show [problem]'s message to the user; decide by its code. */
class TouchlineException(val status: Int, val problem: Problem) : Exception("$status ${problem.code}: ${problem.message}")

class Touchline(private val url: String, cacheFolder: File, var token: String? = null) {
    // The cache sends If-None-Match by itself. OkHttp must not repeat requests: `call` knows which ones it may repeat.
    private val http = OkHttpClient.Builder().cache(Cache(cacheFolder, 10_000_000)).callTimeout(15, SECONDS)
        .retryOnConnectionFailure(false).build()

    suspend fun requestCode(phone: String): Code = // A repeated request would send a second SMS and invalidate the first code.
        call<Data<Code>>("POST", "/api/code/request", buildJsonObject { put("phone", phone) }, repeatable = false).data

    suspend fun verify(phone: String, code: String): Login {
        val body = buildJsonObject { put("phone", phone); put("code", code) }
        return call<Data<Login>>("POST", "/api/code/verify", body).data.also { token = it.token; http.cache?.evictAll() }
    }

    suspend fun chooseUsername(username: String) {
        call<JsonObject>("POST", "/api/auth/update-user-info", buildJsonObject { put("username", username) })
    }

    suspend fun matches(vararg query: Pair<String, String>): Page<Match, Pages> =
        call("GET", "/api/auth/events", null, true, "include" to "my_prediction,picks", *query)

    suspend fun match(id: Long): Match =
        call<Data<Match>>("GET", "/api/auth/events/$id", null, true, "include" to "my_prediction,picks").data

    suspend fun predict(match: Long, prediction: String, score: Score? = null): Prediction =
        call<Data<Prediction>>("POST", "/api/auth/predictions", buildJsonObject {
            put("event_id", match); put("prediction", prediction); put("score_prediction", json.encodeToJsonElement(score))
        }).data

    /** Returns the caller's prediction when it is settled. A void match is settled without points. */
    suspend fun waitForPoints(match: Long, everySeconds: Long = 30): Prediction? {
        while (true) {
            val prediction = match(match).myPrediction
            if (prediction == null || prediction.reason != null) return prediction
            delay(everySeconds * 1000)
        }
    }

    suspend fun leaderboardAroundMe(vararg query: Pair<String, String>): Page<Row, Board> =
        call("GET", "/api/auth/leaderboards", null, true, "around" to "me", *query)

    suspend fun acceptInviteLink(code: String): Membership =
        call<Data<Membership>>("POST", "/api/auth/invite-links/${URLEncoder.encode(code, "UTF-8")}/accept", JsonObject(emptyMap())).data

    /** Sends a request. Repeats it after a temporary error, if that is harmless. */
    private suspend inline fun <reified T> call(
        method: String, path: String, body: JsonObject? = null, repeatable: Boolean = true, vararg query: Pair<String, String>,
    ): T {
        val address = (url + path).toHttpUrl().newBuilder()
        query.forEach { (name, value) -> address.addQueryParameter(name, value) }
        val request = Request.Builder().url(address.build())
            .method(method, body?.toString()?.toRequestBody("application/json".toMediaType()))
            .apply { token?.let { header("Authorization", "Bearer $it") } }.build()
        var attempt = 0
        while (true) {
            val isFinal = attempt == 3 || !repeatable
            val wait = try {
                return json.decodeFromString<T>(send(request))
            } catch (error: TouchlineException) {
                if (error.problem.code.startsWith("token_")) token = null // Show the login.
                val isTemporary = error.status in listOf(429, 500, 502, 503, 504)
                // If the service asks for a longer wait, the user should know and decide.
                if (isFinal || !isTemporary || error.problem.retryAfter > 10) throw error
                error.problem.retryAfter
            } catch (error: IOException) { // No response.
                if (isFinal) throw error
                0
            }
            delay(wait * 1000 + Random.nextLong(500L shl attempt++))
        }
    }

    private suspend fun send(request: Request): String = withContext(Dispatchers.IO) {
        http.newCall(request).execute().use { response ->
            val text = response.body.string()
            if (response.isSuccessful) return@use text
            val problem = try { json.decodeFromString<Problem>(text) } catch (_: SerializationException) { Problem() }
            throw TouchlineException(response.code, problem)
        }
    }

    @OptIn(ExperimentalSerializationApi::class)
    private val json = Json { ignoreUnknownKeys = true; namingStrategy = JsonNamingStrategy.SnakeCase }
}
